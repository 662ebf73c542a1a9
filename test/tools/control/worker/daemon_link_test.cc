// A worker's link to a daemon that is played by the test.
#include "tools/control/worker/daemon_link.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "proto/control.grpc.pb.h"
#include "test/support/status_matchers.h"
#include "tools/control/rpc/rpc.h"

namespace oneflow {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(10);  // of waits that end at once when all is well

// Sends one assignment, gathers what the worker says, and hangs up after `hang_up_after` messages, if that is positive.
class FakeDaemon final : public pb::Daemon::Service {
 public:
  grpc::Status WorkerSession(grpc::ServerContext*,
                             grpc::ServerReaderWriter<pb::ToWorker, pb::FromWorker>* stream) override {
    pb::ToWorker assignment;
    assignment.mutable_assignment()->set_attempt(3);
    stream->Write(assignment);
    if (question > 0) {
      pb::ToWorker asked;
      asked.mutable_diagnose()->set_request(question);
      stream->Write(asked);
    }
    pb::FromWorker message;
    while (stream->Read(&message)) {
      heard.push_back(message);
      if (static_cast<int>(heard.size()) == hang_up_after) break;
    }
    ended.Notify();
    return grpc::Status::OK;
  }

  int64_t question = 0;  // what the worker waits for is asked with this number, if it is positive
  int hang_up_after = -1;
  std::vector<pb::FromWorker> heard;
  absl::Notification ended;
};

pb::ProcessWaits NoWaits() { return {}; }

TEST(DaemonLinkTest, CloseReturnsWhenTheDaemonHasReadEverything) {
  FakeDaemon daemon;
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listen("127.0.0.1:0", {&daemon}));
  pb::WorkerHello hello;
  hello.set_peer_address("a:0");
  ASSERT_OK_AND_ASSIGN(const auto link, DaemonLink::Open(
                                            listener.address, hello, [](absl::Status) { FAIL(); }, NoWaits));
  EXPECT_EQ(link->Receive(kLimit)->assignment().attempt(), 3);
  for (int step = 0; step < 100; ++step) {
    pb::TimedValue value;
    value.mutable_value()->set_step(step);
    link->reports().AddFetched(value);
  }
  pb::FromWorker finished;
  finished.mutable_finished();
  link->reports().Add(finished);
  EXPECT_TRUE(link->Close());
  ASSERT_TRUE(daemon.ended.HasBeenNotified());
  ASSERT_THAT(daemon.heard, SizeIs(::testing::Ge(4)));
  EXPECT_EQ(daemon.heard.front().hello().peer_address(), "a:0");
  EXPECT_TRUE(daemon.heard.back().has_finished());
  int values = 0;
  for (const pb::FromWorker& message : daemon.heard) values += message.fetched().values_size();
  EXPECT_EQ(values, 100);
}

TEST(DaemonLinkTest, AQuestionIsAnsweredBesideWhatElseIsSaid) {
  FakeDaemon daemon;
  daemon.question = 5;
  daemon.hang_up_after = 2;
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listen("127.0.0.1:0", {&daemon}));
  ASSERT_OK_AND_ASSIGN(const auto link, DaemonLink::Open(
                                            listener.address, pb::WorkerHello(), [](absl::Status) {},
                                            [] {
                                              pb::ProcessWaits waits;
                                              waits.set_doing("thinks");
                                              return waits;
                                            }));
  EXPECT_TRUE(link->Receive(kLimit)->has_assignment());
  EXPECT_TRUE(daemon.ended.WaitForNotificationWithTimeout(kLimit));
  EXPECT_EQ(daemon.heard.back().waits().request(), 5);
  EXPECT_EQ(daemon.heard.back().waits().waits().doing(), "thinks");
  EXPECT_THAT(link->Receive(kLimit).status(), StatusIs(absl::StatusCode::kUnavailable, ::testing::_))
      << "a question is no message";
}

TEST(DaemonLinkTest, ALineThatBreaksIsTold) {
  FakeDaemon daemon;
  daemon.hang_up_after = 1;
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listen("127.0.0.1:0", {&daemon}));
  absl::Notification lost;
  ASSERT_OK_AND_ASSIGN(const auto link, DaemonLink::Open(
                                            listener.address, pb::WorkerHello(),
                                            [&](absl::Status why) {
                                              EXPECT_THAT(why, StatusIs(absl::StatusCode::kUnavailable,
                                                                        "the connection to the daemon broke"));
                                              lost.Notify();
                                            },
                                            NoWaits));
  EXPECT_TRUE(lost.WaitForNotificationWithTimeout(kLimit));
  EXPECT_TRUE(link->Receive(kLimit).ok()) << "what came before is not lost";
  EXPECT_THAT(link->Receive(kLimit).status(),
              StatusIs(absl::StatusCode::kUnavailable, "the daemon closed the connection"));
  EXPECT_FALSE(link->Close());
}

}  // namespace
}  // namespace oneflow
