#include "actor/actor_thread.h"

#include <atomic>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "test/actor/test_device.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Writes down what happens.
class Log : public ActRunner, public MessageBus, public ActorThread::Listener {
 public:
  absl::Status RunAct(const Actor& actor, Afterwards&) override {
    acts.push_back(absl::StrCat(actor.spec().name, actor.step()));
    return actor.spec().name == fails ? absl::InternalError("told to fail") : absl::OkStatus();
  }
  void Send(int address, const Message& message) override {
    sent.push_back({RankAt(address), message});
    num_sent = static_cast<int>(sent.size());
  }
  void OnThreadDone(int) override { ++done; }
  void OnThreadFailed(int, absl::Status status) override {
    failures.push_back(std::move(status));
    num_failures = static_cast<int>(failures.size());
  }

  std::string fails;
  std::vector<std::string> acts;
  std::vector<std::pair<int, Message>> sent;
  int done = 0;
  std::vector<absl::Status> failures;
  std::atomic<int> num_sent{0}, num_failures{0};  // for when the thread that follows a device does it
};

class ActorThreadTest : public ::testing::Test {
 protected:
  void Make(int rank, bool has_stream = false) {
    thread_.reset();
    device_ = std::make_unique<TestDevice>(has_stream);
    thread_ = std::make_unique<ActorThread>(
        ActorThread::Context{plan_.set(), rank, {{kComputeQueue, *device_, log_}}, log_, log_});
  }
  // Until there is nothing to do.
  void Settle() {
    while (thread_->Turn()) {
    }
  }

  // Until the device has come so far.
  template <typename F>
  void SettleUntil(F&& is_so) {
    for (const absl::Time begin = absl::Now(); !is_so();) {
      ASSERT_LT(absl::Now() - begin, absl::Seconds(5)) << "the device never comes so far";
      Settle();
      std::this_thread::yield();
    }
  }

  TestPlan plan_{{0, 0}};
  Log log_;
  std::unique_ptr<TestDevice> device_;
  std::unique_ptr<ActorThread> thread_;
};

TEST_F(ActorThreadTest, RunsAGrantToItsEnd) {
  const int a = plan_.Actor(0, "a"), b = plan_.Actor(0, "b");
  plan_.Register("r", {a}, {{b}}, 1);
  Make(0);
  Settle();
  EXPECT_THAT(log_.acts, IsEmpty());
  thread_->Grant(0, 3, 2);
  Settle();
  EXPECT_THAT(log_.acts, ElementsAre("a3", "b3", "a4", "b4"));
  EXPECT_THAT(log_.sent, IsEmpty());  // nothing leaves the rank
  EXPECT_EQ(log_.done, 1);
  thread_->Grant(0, 0, 0);
  Settle();
  EXPECT_EQ(log_.done, 2);
  EXPECT_EQ(thread_->acts(), 4);
}

TEST_F(ActorThreadTest, ActsByPriorityThenById) {
  for (const auto& [name, priority] :
       {std::pair("low", -1), std::pair("x", 0), std::pair("y", 0), std::pair("high", 7)}) {
    plan_.Actor(0, name, 1, priority);
  }
  Make(0);
  thread_->Grant(0, 0, 1);
  Settle();
  EXPECT_THAT(log_.acts, ElementsAre("high0", "x0", "y0", "low0"));
}

TEST_F(ActorThreadTest, ActorsWithCollectivesActInTheirOrder) {
  const int late = plan_.Actor(0, "late", 1, 7), first = plan_.Actor(0, "first", 1, -1);
  plan_.Actor(0, "free", 1, 3);
  pb::QueueOrder* order = plan_.plan().add_orders();
  order->add_actors(first);
  order->add_actors(late);
  Make(0);
  thread_->Grant(0, 0, 2);
  Settle();
  // "free" may run ahead; "late", though most urgent, never does.
  EXPECT_THAT(log_.acts, ElementsAre("free0", "free1", "first0", "late0", "first1", "late1"));
  EXPECT_EQ(log_.done, 1);
}

TEST_F(ActorThreadTest, SendsToOtherRanksAndWaitsForTheirAnswers) {
  const int a = plan_.Actor(0, "a"), b = plan_.Actor(1, "b");
  plan_.Register("r", {a}, {{b}}, 1);
  Make(0);
  thread_->Grant(0, 0, 2);
  Settle();
  EXPECT_THAT(log_.sent, ElementsAre(Pair(1, Message{Message::Kind::kFilled, 0, 0, b, 0, 0})));
  EXPECT_THAT(log_.acts, ElementsAre("a0"));
  const Message first{Message::Kind::kFreed, 0, 0, a, 0, 0}, second{Message::Kind::kFreed, 1, 0, a, 0, 0};
  thread_->Post({&first, 1});
  Settle();
  EXPECT_THAT(log_.acts, ElementsAre("a0", "a1"));
  EXPECT_EQ(log_.done, 0);
  thread_->Post({&second, 1});
  Settle();
  EXPECT_EQ(log_.done, 1);
}

TEST_F(ActorThreadTest, TakesMessagesOfAPlanThatIsNotGrantedYet) {
  const int a = plan_.Actor(0, "a"), b = plan_.Actor(1, "b");
  plan_.Register("r", {a}, {{b}}, 1);
  Make(1);
  const Message filled{Message::Kind::kFilled, 0, 0, b, 0, 0};
  thread_->Post({&filled, 1});
  Settle();
  EXPECT_THAT(log_.acts, IsEmpty());
  thread_->Grant(0, 0, 1);
  Settle();
  EXPECT_THAT(log_.acts, ElementsAre("b0"));
  EXPECT_EQ(log_.done, 1);
}

TEST_F(ActorThreadTest, HoldsMessagesToOtherRanksUntilTheDeviceHasComputed) {
  const int a = plan_.Actor(0, "a"), near = plan_.Actor(0, "near"), far = plan_.Actor(1, "far");
  plan_.Register("r", {a}, {{near}, {far}}, 1);
  Make(0, /*has_stream=*/true);
  device_->running = false;
  thread_->Grant(0, 0, 1);
  Settle();
  EXPECT_THAT(log_.acts, ElementsAre("a0", "near0"));  // ordered by the stream
  EXPECT_EQ(log_.num_sent, 0);
  device_->running = true;
  device_->running.notify_all();
  SettleUntil([&] { return log_.num_sent == 1; });
  EXPECT_THAT(log_.sent, ElementsAre(Pair(1, Message{Message::Kind::kFilled, 0, 0, far, 0, 0})));
  EXPECT_EQ(log_.done, 0);
  const Message freed{Message::Kind::kFreed, 0, 0, a, 0, 0};
  thread_->Post({&freed, 1});
  SettleUntil([&] { return log_.done == 1; });
}

// Both queues are streams of one thread: the device waits, by an event for each slot that passes from one to the other.
TEST_F(ActorThreadTest, ActsOnOtherStreamsAreLaunchedBehindWhatTheirSlotsCameFrom) {
  const int a = plan_.Actor(0, "a"), b = plan_.Actor(0, "b");
  plan_.plan().mutable_actors(b)->set_queue(kCommunicationQueue);
  plan_.Register("r", {a}, {{b}}, 2);
  TestDevice compute(true), communication(true);
  ActorThread thread(
      {plan_.set(), 0, {{kComputeQueue, compute, log_}, {kCommunicationQueue, communication, log_}}, log_, log_});
  thread.Grant(0, 0, 4);
  while (thread.Turn()) {
  }
  EXPECT_THAT(log_.acts, ElementsAre("a0", "a1", "b0", "a2", "b1", "a3", "b2", "b3"));
  EXPECT_THAT(communication.waits,
              ElementsAre(Pair(&compute, 0), Pair(&compute, 1), Pair(&compute, 2), Pair(&compute, 3)));
  EXPECT_THAT(compute.waits, ElementsAre(Pair(&communication, 0), Pair(&communication, 1)));
  EXPECT_EQ(compute.num_given_back, 4);
  EXPECT_EQ(communication.num_given_back, 2);
  thread.Join();
}

TEST_F(ActorThreadTest, IsDoneWhenItsDeviceIs) {
  plan_.Actor(0, "a");
  Make(0, /*has_stream=*/true);
  device_->running = false;
  thread_->Grant(0, 0, 2);
  Settle();
  EXPECT_THAT(log_.acts, ElementsAre("a0", "a1"));
  EXPECT_EQ(log_.done, 0);
  device_->running = true;
  device_->running.notify_all();
  SettleUntil([&] { return log_.done == 1; });
}

TEST_F(ActorThreadTest, AnErrorOfTheDeviceEndsTheRun) {
  const int a = plan_.Actor(0, "a"), far = plan_.Actor(1, "far");
  plan_.Register("r", {a}, {{far}}, 1);
  Make(0, /*has_stream=*/true);
  device_->error = "an illegal memory access";
  thread_->Grant(0, 0, 1);
  SettleUntil([&] { return log_.num_failures == 1; });
  EXPECT_THAT(log_.failures,
              ElementsAre(StatusIs(absl::StatusCode::kInternal,
                                   "rank 0 (cpu:0): the device failed in or before an act of plan 'p' actor 'a': an "
                                   "illegal memory access")));
  EXPECT_EQ(log_.num_sent, 0);
  EXPECT_EQ(log_.done, 0);
}

// The last kernels of a run too, which nobody else waits for.
TEST_F(ActorThreadTest, AnErrorAtTheEndIsNoSuccess) {
  plan_.Actor(0, "a");
  Make(0, /*has_stream=*/true);
  device_->error = "unspecified launch failure";
  thread_->Grant(0, 0, 1);
  SettleUntil([&] { return log_.num_failures == 1; });
  EXPECT_EQ(log_.done, 0);
}

TEST_F(ActorThreadTest, StopsAtTheFirstError) {
  plan_.Actor(0, "a");
  plan_.Actor(0, "b");
  log_.fails = std::string("a");
  Make(0);
  thread_->Grant(0, 0, 5);
  Settle();
  EXPECT_THAT(log_.acts, ElementsAre("a0"));
  EXPECT_THAT(log_.failures, ElementsAre(StatusIs(absl::StatusCode::kInternal, "told to fail")));
  EXPECT_EQ(log_.done, 0);
}

TEST_F(ActorThreadTest, RefusesMessagesForActorsThatItDoesNotHave) {
  const int a = plan_.Actor(0, "a"), b = plan_.Actor(1, "b");
  plan_.Register("r", {a}, {{b}}, 1);
  for (const Message& message : {Message{.plan = 1}, Message{.actor = b}, Message{.actor = 2}, Message{.actor = -1},
                                 Message{.kind = Message::Kind::kFreed, .actor = a, .slot = 3}}) {
    log_.failures.clear();
    Make(0);
    thread_->Post({&message, 1});
    Settle();
    EXPECT_THAT(log_.failures, ElementsAre(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("actor"))));
  }
}

TEST_F(ActorThreadTest, ReportsWhatItsActorsWaitFor) {
  const int a = plan_.Actor(0, "a"), b = plan_.Actor(1, "b");
  plan_.Register("r", {a}, {{b}}, 1);
  Make(1);
  thread_->Grant(0, 0, 1);
  thread_->Start();
  thread_->AskWaits();
  const pb::QueueWaits waits = thread_->Waits(std::chrono::steady_clock::now() + std::chrono::hours(1));
  EXPECT_EQ(waits.rank(), 1);
  EXPECT_EQ(waits.device(), "cpu:1");
  EXPECT_EQ(waits.plan(), "p");
  EXPECT_THAT(waits.queues(), ElementsAre(kComputeQueue));
  EXPECT_FALSE(waits.has_running() || waits.no_answer());
  ASSERT_EQ(waits.actors_size(), 1);
  EXPECT_EQ(waits.actors(0).actor(), b);
  EXPECT_EQ(WaitText(waits.actors(0)),
            "waits for register 0 'r' slot 0 to be filled by actor 0 'a' on rank 0 (step 0, micro-batch 0, 1 acts "
            "left)");
}

}  // namespace
}  // namespace oneflow
