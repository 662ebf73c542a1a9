// Jobs that go on with fewer devices.
#include <csignal>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/control/scheduler/scheduler_state_test.h"
#include "test/tools/support/job_spec.h"

namespace oneflow {
namespace {

// A job of two processes that may go on in one, on daemons d0 (session 1) and d1 (session 2), of which d1 is lost.
class FallbackTest : public SchedulerStateTest {
 protected:
  void SetUp() override {
    AddDaemon("d0", 1, 10);
    AddDaemon("d1", 1, 12);
    pb::JobSpec spec = EmptyJob(2, 1);
    spec.mutable_restart()->set_attempts(5);
    spec.mutable_restart()->set_wait_seconds(5);
    AddFallback(EmptyJob(1, 1), "1 device", spec);
    job_ = *state_.Submit(Accept(spec), now_, effects_);
    Hello(1, job_, 0);
    Hello(2, job_, 1);
    ASSERT_EQ(State(job_), pb::RUNNING);
    Store();
    Messages();
  }
  void LoseD1() {
    state_.SessionEnded(2, now_, effects_);
    Heartbeat(1), Advance(absl::Milliseconds(1500));
    Exit(1, job_, 0, 0, SIGTERM);
    EXPECT_EQ(State(job_), pb::QUEUED);
    Store();
    Messages();
  }
  void Wait(double seconds) {
    for (double waited = 0; waited < seconds; waited += 0.5) {
      for (SessionId session = 1; session <= last_session_; ++session) Heartbeat(session);
      Advance(absl::Seconds(0.5));
    }
  }

  int64_t job_ = 0;
};

TEST_F(FallbackTest, AJobWaitsForALostDaemonAndThenGoesOnWithoutIt) {
  LoseD1();
  Wait(4.5);
  EXPECT_EQ(State(job_), pb::QUEUED);
  EXPECT_EQ(state_.Find(job_)->processes(), 2);
  effects_ = {};
  Wait(0.5);
  EXPECT_EQ(State(job_), pb::STARTING);
  ASSERT_THAT(effects_.messages, SizeIs(1));
  const pb::JobSpec& spec = effects_.messages[0].second.start().spec();
  EXPECT_EQ(spec.processes(), 1);
  EXPECT_EQ(spec.layout(), "1 device");
  EXPECT_EQ(spec.plan_hash(), EmptyJob(1, 1).plan_hash());
  ASSERT_FALSE(effects_.events.empty());
  EXPECT_EQ(effects_.events[0].second.notice().text(),
            "goes on with 1 device: host 0 of the plan takes 2 cpu devices; no machine offers more than 1");
  EXPECT_EQ(state_.Find(job_)->processes(), 1);
  EXPECT_EQ(state_.Find(job_)->fallback(), 1);
  Hello(1, job_, 0, 2);
  EXPECT_EQ(State(job_), pb::RUNNING);
  Exit(1, job_, 0, 0, SIGKILL, 2);
  EXPECT_EQ(state_.Nodes().nodes(0).used_cpu(), 0);
}

TEST_F(FallbackTest, ADaemonThatComesBackInTimeIsUsed) {
  LoseD1();
  Wait(3);
  AddDaemon("d1", 1, 99);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
  EXPECT_EQ(state_.Find(job_)->fallback(), 0);
}

TEST_F(FallbackTest, TheNextAttemptIsOnItsOwnLayoutIfThereIsOneAgain) {
  LoseD1();
  Wait(5);
  Hello(1, job_, 0, 2);
  AddDaemon("d1", 1, 99);
  EXPECT_EQ(State(job_), pb::RUNNING) << "what runs is left alone";
  Messages();
  Exit(1, job_, 0, 0, SIGKILL, 2);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
  EXPECT_EQ(state_.Find(job_)->fallback(), 0);
}

TEST_F(FallbackTest, DevicesThatOthersHaveAreWaitedFor) {
  LoseD1();
  pb::JobSpec other = EmptyJob(1, 1);
  *state_.Submit(Accept(other), now_, effects_);  // d0 is free, and job 1 could not be held by it
  AddDaemon("d1", 1, 99);
  Wait(10);
  EXPECT_EQ(State(job_), pb::QUEUED) << "both are there, and one is busy";
  EXPECT_EQ(state_.Find(job_)->fallback(), 0);
}

TEST_F(FallbackTest, ARestartedSchedulerKnowsTheLayout) {
  LoseD1();
  Wait(5);
  Hello(1, job_, 0, 2);
  Store();
  RestartScheduler();
  EXPECT_EQ(state_.Find(job_)->fallback(), 1);
  EXPECT_EQ(state_.Describe(job_)->workers_size(), 1);
  AddDaemon("d0", 1, 10, "h", {Running(job_, 0, true, 2)});
  EXPECT_EQ(State(job_), pb::RUNNING);
}

}  // namespace
}  // namespace oneflow
