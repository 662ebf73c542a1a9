// Who is let in by TLS: at a scheduler's port, and among the workers of a job.
#include <atomic>
#include <thread>

#include "actor/transport/peer_network.h"
#include "gmock/gmock.h"
#include "proto/control.grpc.pb.h"
#include "test/support/log_capture.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/tools/support/strange_server.h"
#include "tools/control/client.h"
#include "tools/control/daemon/daemon.h"
#include "tools/control/rpc/rpc.h"
#include "tools/control/scheduler/service.h"
#include "tools/control/security/certificates.h"
#include "tools/control/worker/daemon_link.h"

namespace oneflow {
namespace {

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr absl::Duration kSoon = absl::Seconds(1);
constexpr absl::Duration kLong = absl::Seconds(20);

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"ours", "theirs"}) ASSERT_OK(MakeCertificates(dir_.File(folder), {}));
    SchedulerOptions options{.db_path = dir_.File("jobs.db"), .identity = Load("ours/cluster")};
    ASSERT_OK_AND_ASSIGN(scheduler_, SchedulerServer::Start(options));
  }
  TlsIdentity Load(const std::string& folder) const {
    const absl::StatusOr<TlsIdentity> identity = LoadIdentity(dir_.File(folder), absl::Now());
    EXPECT_OK(identity);
    return identity.value_or(TlsIdentity());
  }
  absl::Status ConnectWith(const TlsIdentity& identity) const {
    return Client::Connect({scheduler_->address(), identity}, kSoon).status();
  }
  // How a daemon's session with this certificate ends, or that it is welcome.
  absl::Status BeADaemonWith(const TlsIdentity& identity) const {
    const auto stub = pb::Scheduler::NewStub(OpenChannel(scheduler_->address(), identity));
    grpc::ClientContext context;
    const auto session = stub->DaemonSession(&context);
    pb::FromDaemon hello;
    hello.mutable_hello()->set_name("d0");
    hello.mutable_hello()->set_host("h");
    hello.mutable_hello()->set_memory("m");
    session->Write(hello);
    pb::ToDaemon answer;
    if (!session->Read(&answer)) return FromGrpc(session->Finish());
    context.TryCancel();
    session->Finish();
    return absl::OkStatus();
  }

  const TestDir dir_;
  std::unique_ptr<SchedulerServer> scheduler_;
};

TEST_F(TlsTest, AUserLooksAndSubmitsButIsNoDaemon) {
  ASSERT_OK_AND_ASSIGN(const auto client, Client::Connect({scheduler_->address(), Load("ours/user")}, kLong));
  EXPECT_OK(client->List());
  EXPECT_OK(BeADaemonWith(Load("ours/cluster")));
  const LogCapture log;
  EXPECT_THAT(BeADaemonWith(Load("ours/user")),
              StatusIs(absl::StatusCode::kPermissionDenied, "the caller's certificate is of no part of the cluster"));
  EXPECT_THAT(log.text(), HasSubstr("refused to be a daemon for ipv4:127.0.0.1:"));
}

TEST_F(TlsTest, WhoShowsNoCertificateIsRefused) {
  EXPECT_THAT(ConnectWith({}),
              StatusIs(kUnavailable, HasSubstr("someone listens there and hangs up: does it want --tls")));
  // With TLS, but nothing to show.
  EXPECT_THAT(ConnectWith({.authority = Load("ours/user").authority}),
              StatusIs(kUnavailable, HasSubstr("cannot connect within 1s")));
}

TEST_F(TlsTest, WhoseCertificateIsOfAnotherCaIsRefused) {
  EXPECT_THAT(
      ConnectWith(Load("theirs/user")),
      StatusIs(kUnavailable, HasSubstr("certificate verify failed: are the certificates on both sides of one CA?")));
  // One that believes our CA, and shows what another has signed: it is refused by the scheduler.
  TlsIdentity mixed = Load("theirs/cluster");
  mixed.authority = Load("ours/user").authority;
  EXPECT_THAT(ConnectWith(mixed), StatusIs(kUnavailable, HasSubstr("cannot connect within 1s")));
  EXPECT_THAT(BeADaemonWith(mixed).code(), kUnavailable);
}

TEST_F(TlsTest, AUserCannotPlayAScheduler) {
  pb::Scheduler::Service nobody;
  ASSERT_OK_AND_ASSIGN(const Listener false_one, Listen("127.0.0.1:0", {&nobody}, {.identity = Load("ours/user")}));
  EXPECT_THAT(Client::Connect({false_one.address, Load("ours/user")}, kSoon).status(),
              StatusIs(kUnavailable, HasSubstr("certificate verify failed")));
  false_one.server->Shutdown();
}

// Plays a scheduler and a daemon, and notes who believes it.
class FalseOne final : public pb::Scheduler::Service, public pb::Daemon::Service {
 public:
  grpc::Status List(grpc::ServerContext*, const pb::ListRequest*, pb::ListReply*) override { return Note(); }
  grpc::Status DaemonSession(grpc::ServerContext*, grpc::ServerReaderWriter<pb::ToDaemon, pb::FromDaemon>*) override {
    return Note();
  }
  grpc::Status WorkerSession(grpc::ServerContext*, grpc::ServerReaderWriter<pb::ToWorker, pb::FromWorker>*) override {
    return Note();
  }
  std::atomic<int> believed = 0;

 private:
  grpc::Status Note() {
    ++believed;
    return grpc::Status::OK;
  }
};

class StrangeServerTest : public TlsTest {
 protected:
  void SetUp() override {
    TlsTest::SetUp();
    ASSERT_OK_AND_ASSIGN(listener_, Listen("127.0.0.1:0",
                                           {static_cast<pb::Scheduler::Service*>(&false_one_),
                                            static_cast<pb::Daemon::Service*>(&false_one_)},
                                           {.identity = testing::MakeStrangeServer(dir_.File("ours"))}));
  }
  void TearDown() override {
    listener_.server->Shutdown();
    EXPECT_EQ(false_one_.believed, 0);
  }
  static auto IsRefused() {
    return StatusIs(absl::StatusCode::kPermissionDenied,
                    HasSubstr("its certificate is of no part of the cluster (it lacks the URI 'oneflow:cluster')"));
  }

  FalseOne false_one_;
  Listener listener_;
};

TEST_F(StrangeServerTest, IsNoSchedulerToAClient) {
  EXPECT_THAT(Client::Connect({listener_.address, Load("ours/user")}, kLong).status(), IsRefused());
  // It is its name alone that is wrong: the handshake lets it pass.
  const auto stub = pb::Scheduler::NewStub(OpenChannel(listener_.address, Load("ours/user")));
  grpc::ClientContext context;
  pb::ListReply reply;
  EXPECT_TRUE(stub->List(&context, pb::ListRequest(), &reply).ok());
  EXPECT_EQ(false_one_.believed.exchange(0), 1);
}

TEST_F(StrangeServerTest, IsNoSchedulerToADaemon) {
  const LogCapture log;
  DaemonOptions options{.scheduler = listener_.address, .name = "d0", .host = "h", .memory = "m"};
  options.work_dir = dir_.File("");
  options.identity = Load("ours/cluster");
  ASSERT_OK_AND_ASSIGN(const auto daemon, Daemon::Start(options));
  std::thread running([&] { EXPECT_OK(daemon->Run()); });
  EXPECT_TRUE(log.Await("its certificate is of no part of the cluster (it lacks the URI 'oneflow:cluster')"));
  daemon->Stop();
  running.join();
}

TEST_F(StrangeServerTest, IsNoDaemonToAWorker) {
  EXPECT_THAT(DaemonLink::Open(
                  listener_.address, pb::WorkerHello(), [](absl::Status) {}, [] { return pb::ProcessWaits(); },
                  Load("ours/cluster"))
                  .status(),
              IsRefused());
}

TEST_F(StrangeServerTest, IsNoPeerToAWorkerThatCallsIt) {
  const auto make = [](int process, const TlsIdentity& identity) {
    return std::move(PeerNetwork::Create(process, 2, /*attempt=*/1, "127.0.0.1", identity)).value();
  };
  const auto strange = make(0, testing::MakeStrangeServer(dir_.File("ours"))), ours = make(1, Load("ours/cluster"));
  EXPECT_THAT(ours->Connect({strange->address(), ours->address()}, kLong),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("process 0 ("), HasSubstr("its certificate is of no part of the cluster"))));
}

TEST_F(TlsTest, ASchedulerIsKnownByTheNamesInItsCertificate) {
  pb::Scheduler::Service nobody;
  ASSERT_OK_AND_ASSIGN(const Listener elsewhere, Listen("127.0.0.2:0", {&nobody}, {.identity = Load("ours/cluster")}));
  EXPECT_THAT(Client::Connect({elsewhere.address, Load("ours/user")}, kSoon).status(),
              StatusIs(kUnavailable, HasSubstr("cannot connect within 1s")));
  elsewhere.server->Shutdown();
}

TEST_F(TlsTest, PeersAreTheClustersParts) {
  const auto make = [&](int process, const std::string& folder) {
    return std::move(PeerNetwork::Create(process, 2, /*attempt=*/1, "127.0.0.1", Load(folder))).value();
  };
  {
    const auto first = make(0, "ours/cluster"), second = make(1, "ours/cluster");
    const std::vector<std::string> addresses = {first->address(), second->address()};
    absl::Status connected;
    std::thread other([&] { connected = second->Connect(addresses, kLong); });
    EXPECT_OK(first->Connect(addresses, kLong));
    other.join();
    EXPECT_OK(connected);
    EXPECT_TRUE(first->is_secret());
  }
  const auto first = make(0, "ours/cluster"), user = make(1, "ours/user");
  const LogCapture log;
  EXPECT_THAT(user->Connect({first->address(), user->address()}, kLong),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("its certificate is of no part of the cluster")));
  EXPECT_THAT(log.text(), HasSubstr("process 0: a peer's call from ipv4:127.0.0.1:"));
  const auto plain = std::move(PeerNetwork::Create(1, 2, /*attempt=*/1)).value();
  EXPECT_THAT(plain->Connect({first->address(), plain->address()}, kSoon),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("process 0")));
}

TEST(MayListenTest, PlainTextStaysOnThisMachineUnlessItIsMeant) {
  for (const char* address : {"127.0.0.1:0", "127.8.9.1:7", "[::1]:0", "localhost:7000"}) {
    EXPECT_OK(MayListen(address, {})) << address;
  }
  for (const char* address : {"0.0.0.0:7000", "[::]:7000", "10.0.0.1:7", "192.0.2.1", "no.such.name.invalid:7"}) {
    EXPECT_THAT(MayListen(address, {}),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("can be reached from other machines"), HasSubstr("--insecure"))))
        << address;
    EXPECT_OK(MayListen(address, {.insecure = true}));
    EXPECT_OK(MayListen(address, {.identity = {.authority = "a"}}));
  }
}

}  // namespace
}  // namespace oneflow
