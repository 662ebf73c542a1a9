#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "actor/transport/peer_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/peer.grpc.pb.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20);

// Keeps what it is told, and lets a test wait for it.
class Recorder : public PeerNetwork::Listener {
 public:
  void OnMessages(int process, absl::Span<const Message> messages) override {
    std::lock_guard<std::mutex> lock(mu_);
    for (const Message& message : messages) received_.push_back({process, message.slot});
    changed_.notify_all();
  }
  void OnPeerError(int, absl::Status status) override { SetStatus(status); }
  void OnPeerLost(int, absl::Status status) override { SetStatus(status); }

  std::vector<std::pair<int, int>> WaitForMessages(size_t count) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return received_.size() >= count; });
    return received_;
  }
  absl::Status WaitForStatus() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return !status_.ok(); });
    return status_;
  }

 private:
  void SetStatus(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mu_);
    status_ = status;
    changed_.notify_all();
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<std::pair<int, int>> received_;
  absl::Status status_;
};

std::unique_ptr<PeerNetwork> Make(int process, int num_processes, uint64_t attempt = 1) {
  return std::move(PeerNetwork::Create(process, num_processes, attempt)).value();
}

// Connected to one another.
std::vector<std::unique_ptr<PeerNetwork>> Connected(int num_processes) {
  std::vector<std::unique_ptr<PeerNetwork>> networks;
  std::vector<std::string> addresses;
  for (int p = 0; p < num_processes; ++p) {
    networks.push_back(Make(p, num_processes));
    addresses.push_back(networks.back()->address());
  }
  std::vector<std::thread> threads;
  for (auto& network : networks) threads.emplace_back([&] { EXPECT_OK(network->Connect(addresses, kLong)); });
  for (std::thread& thread : threads) thread.join();
  return networks;
}

TEST(PeerNetworkTest, NotesOfAllComeToAllInTheirOrder) {
  auto networks = Connected(3);
  std::vector<std::thread> threads;
  for (int p = 0; p < 3; ++p) {
    threads.emplace_back([&networks, p] {
      for (int round = 0; round < 50; ++round) {
        const absl::StatusOr<std::vector<std::string>> notes =
            networks[p]->ExchangeNotes(absl::StrCat(round, " from ", p));
        ASSERT_OK(notes.status());
        const std::string now = absl::StrCat(round, " from ");
        EXPECT_THAT(*notes, ElementsAre(now + "0", now + "1", now + "2"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// gRPC takes no message beyond 4 MiB.
TEST(PeerNetworkTest, NotesMayHaveAnySize) {
  auto networks = Connected(3);
  const auto note = [](int p, int round) { return std::string((round + 1) * (p * 5'000'000 + 3), 'a' + p); };
  std::vector<std::thread> threads;
  for (int p = 0; p < 3; ++p) {
    threads.emplace_back([&networks, &note, p] {
      for (int round = 0; round < 2; ++round) {
        const absl::StatusOr<std::vector<std::string>> notes = networks[p]->ExchangeNotes(note(p, round));
        ASSERT_OK(notes.status());
        for (int from = 0; from < 3; ++from) EXPECT_TRUE((*notes)[from] == note(from, round)) << round << " " << from;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PeerNetworkTest, DeliversMessagesInOrder) {
  auto networks = Connected(3);
  Recorder recorder;
  networks[2]->SetListener(&recorder);
  constexpr int kCount = 5000;
  for (int i = 0; i < kCount; ++i) {
    const Message message{.slot = i};
    networks[0]->Send(2, {&message, 1});
  }
  const auto received = recorder.WaitForMessages(kCount);
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(received[i], std::pair(0, i));
  const Message answer{.slot = 17};
  Recorder other;
  networks[1]->SetListener(&other);
  networks[2]->Send(1, {&answer, 1});
  EXPECT_THAT(other.WaitForMessages(1), ElementsAre(std::pair(2, 17)));
  networks[1]->SetListener(nullptr);
  networks[2]->SetListener(nullptr);
}

TEST(PeerNetworkTest, KeepsMessagesUntilThereIsAListener) {
  auto networks = Connected(2);
  for (int i = 0; i < 3; ++i) {
    const Message message{.slot = i};
    networks[0]->Send(1, {&message, 1});
  }
  Recorder recorder;
  networks[1]->SetListener(&recorder);
  EXPECT_THAT(recorder.WaitForMessages(3), ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(0, 2)));
  networks[1]->SetListener(nullptr);
}

TEST(PeerNetworkTest, ExchangesPlansAndHoldsEveryoneAtABarrier) {
  auto networks = Connected(3);
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (auto& network : networks) {
    threads.emplace_back([&] {
      for (int round = 1; round <= 20; ++round) {
        pb::PeerPlan mine;
        mine.set_hash(absl::StrCat(network->process(), "/", round));
        const absl::StatusOr<std::vector<pb::PeerPlan>> plans = network->Exchange(mine);
        ASSERT_OK(plans);
        for (int p = 0; p < 3; ++p) EXPECT_EQ((*plans)[p].hash(), absl::StrCat(p, "/", round));
        ++arrived;
        ASSERT_OK(network->Barrier());
        EXPECT_GE(arrived.load(), 3 * round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PeerNetworkTest, ComparesClocksAsWellAsRoundTripsCan) {
  auto networks = Connected(3);
  for (const int peer : {1, 2}) {
    ASSERT_OK_AND_ASSIGN(const ClockReading reading, networks[0]->CompareClock(peer));
    EXPECT_LE(std::abs(reading.ahead_ns), reading.error_ns);  // it is one clock
    EXPECT_GT(reading.error_ns, 0);
  }
  networks[1].reset();
  EXPECT_THAT(networks[0]->CompareClock(1), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("process 1")));
  networks[0]->Interrupt(absl::CancelledError("enough"));
  EXPECT_THAT(networks[0]->CompareClock(2), StatusIs(absl::StatusCode::kCancelled, "enough"));
}

TEST(PeerNetworkTest, NoticesALostPeerAtOnce) {
  auto networks = Connected(3);
  Recorder recorder;
  networks[0]->SetListener(&recorder);
  const std::string address = networks[1]->address();
  networks[1].reset();
  EXPECT_THAT(recorder.WaitForStatus(),
              StatusIs(absl::StatusCode::kUnavailable, absl::StrCat("process 1 (", address, "): connection lost")));
  EXPECT_THAT(networks[0]->Barrier(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("process 1")));
  const Message message;
  networks[0]->Send(1, {&message, 1});  // goes nowhere
  networks[0]->SetListener(nullptr);
}

TEST(PeerNetworkTest, LetsAPeerGoThatHasReachedTheBarrier) {
  auto networks = Connected(3);
  std::thread second([&] { EXPECT_OK(networks[1]->Barrier()); });
  Recorder recorder;
  networks[1]->SetListener(&recorder);
  std::thread first([&] {
    networks[0]->Interrupt(absl::CancelledError("leaves"));  // sends its barrier, does not wait
    EXPECT_THAT(networks[0]->Barrier(), StatusIs(absl::StatusCode::kCancelled, "leaves"));
    networks[0].reset();
  });
  first.join();
  EXPECT_THAT(recorder.WaitForStatus(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("process 0")));
  // Process 2 comes late, and has process 0's frame before the end of its stream.
  EXPECT_OK(networks[2]->Barrier());
  second.join();
  networks[1]->SetListener(nullptr);
}

TEST(PeerNetworkTest, TellsPeersOfAnErrorBeforeItLeaves) {
  auto networks = Connected(2);
  Recorder recorder;
  networks[1]->SetListener(&recorder);
  networks[0]->SendError(absl::ResourceExhaustedError("no memory"));
  networks[0].reset();
  EXPECT_THAT(recorder.WaitForStatus(), StatusIs(absl::StatusCode::kResourceExhausted, "no memory"));
  EXPECT_THAT(networks[1]->Barrier(),
              StatusIs(absl::StatusCode::kAborted, AllOf(HasSubstr("process 0"), HasSubstr("no memory"))));
  networks[1]->SetListener(nullptr);
}

TEST(PeerNetworkTest, RefusesAStaleAttempt) {
  auto current = Make(0, 2, 8), stale = Make(1, 2, 7);
  EXPECT_THAT(stale->Connect({current->address(), stale->address()}, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("process 0 is of attempt 8"), HasSubstr("process 1 is of attempt 7"))));
  auto fresh = Make(1, 2, 8);  // the refusal has not used the place up
  std::future<absl::Status> other = std::async(std::launch::async, [&] {
    return current->Connect({current->address(), fresh->address()}, kLong);
  });
  EXPECT_OK(fresh->Connect({current->address(), fresh->address()}, kLong));
  EXPECT_OK(other.get());
}

TEST(PeerNetworkTest, RefusesTheSameAttemptOfAnotherJob) {
  const auto make = [](int process, uint64_t run) {
    return std::move(PeerNetwork::Create(process, 2, /*attempt=*/1, "127.0.0.1", {}, run)).value();
  };
  auto ours = make(0, 0xab), other = make(1, 0xac), own = make(1, 0xab);
  EXPECT_THAT(other->Connect({ours->address(), other->address()}, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("process 0 is of attempt 1 of run 00000000000000ab"),
                             HasSubstr("process 1 is of attempt 1 of run 00000000000000ac"))));
  std::future<absl::Status> second = std::async(std::launch::async, [&] {
    return ours->Connect({ours->address(), own->address()}, kLong);
  });
  EXPECT_OK(own->Connect({ours->address(), own->address()}, kLong));
  EXPECT_OK(second.get());
}

TEST(PeerNetworkTest, SaysWhoIsMissing) {
  auto network = Make(0, 3);
  EXPECT_THAT(network->Connect({network->address(), "127.0.0.1:1", "127.0.0.1:2"}, absl::Milliseconds(20)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("process 1 (127.0.0.1:1)"), HasSubstr("process 2 (127.0.0.1:2)"))));
  EXPECT_THAT(network->Connect({"x"}, kLong),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 peer addresses")));
}

// Calls a network as process 1 of 2 and says whatever a test wants.
class Stranger {
 public:
  explicit Stranger(const std::string& address)
      : stub_(pb::Peer::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        stream_(stub_->Connect(&context_)) {}
  void Say(const pb::PeerFrame& frame) { stream_->Write(frame); }
  void SayHello(int process) {
    pb::PeerFrame frame;
    frame.mutable_hello()->set_attempt(1);
    frame.mutable_hello()->set_process(process);
    frame.mutable_hello()->set_processes(2);
    Say(frame);
  }
  bool Hear(pb::PeerFrame& frame) { return stream_->Read(&frame); }
  grpc::Status End() {
    context_.TryCancel();
    return stream_->Finish();
  }
  grpc::Status Outcome() { return stream_->Finish(); }

 private:
  std::unique_ptr<pb::Peer::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::PeerFrame, pb::PeerFrame>> stream_;
};

TEST(PeerNetworkTest, RefusesGreetingsThatMakeNoSense) {
  auto network = Make(0, 2);
  for (const int process : {-1, 0, 2}) {
    Stranger stranger(network->address());
    stranger.SayHello(process);
    pb::PeerFrame frame;
    EXPECT_FALSE(stranger.Hear(frame));
    EXPECT_EQ(stranger.Outcome().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << process;
  }
  Stranger silent(network->address());
  silent.Say(pb::PeerFrame());
  pb::PeerFrame frame;
  EXPECT_FALSE(silent.Hear(frame));
  EXPECT_THAT(silent.Outcome().error_message(), HasSubstr("no hello"));

  Stranger first(network->address()), second(network->address());
  first.SayHello(1);
  ASSERT_TRUE(first.Hear(frame));
  EXPECT_EQ(frame.hello().process(), 0);
  second.SayHello(1);
  EXPECT_FALSE(second.Hear(frame));
  EXPECT_EQ(second.Outcome().error_code(), grpc::StatusCode::ALREADY_EXISTS);
  first.End();
}

TEST(PeerNetworkTest, LeavesAPeerThatTalksNonsense) {
  pb::PeerFrame odd, kind, barrier, again;
  odd.mutable_messages()->set_packed("123");
  kind.mutable_messages()->set_packed(std::string(16, '\x05'));
  barrier.mutable_barrier()->set_sequence(5);
  again.mutable_hello()->set_attempt(1);
  const struct {
    const pb::PeerFrame& frame;
    const char* error;
  } cases[] = {{odd, "3 bytes are no whole number of messages"},
               {kind, "message kind 5 is unknown"},
               {barrier, "barrier 5 follows barrier 0"},
               {again, "an unexpected frame"}};
  for (const auto& c : cases) {
    auto network = Make(0, 2);
    Recorder recorder;
    network->SetListener(&recorder);
    Stranger stranger(network->address());
    stranger.SayHello(1);
    stranger.Say(c.frame);
    EXPECT_THAT(recorder.WaitForStatus(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
    stranger.End();
    network->SetListener(nullptr);
  }
}

}  // namespace
}  // namespace oneflow
