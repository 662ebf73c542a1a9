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
  void SetUp() override { Begin(/*grow=*/false); }
  void Begin(bool grow) {
    AddDaemon("d0", 1, 10);
    AddDaemon("d1", 1, 12);
    pb::JobSpec spec = EmptyJob(2, 1);
    spec.set_layout("2 devices");
    spec.mutable_restart()->set_attempts(5);
    spec.mutable_restart()->set_wait_seconds(5);
    spec.mutable_restart()->set_grow(grow);
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

// The same, of a job that takes more devices when they have come.
class GrowingTest : public FallbackTest {
 protected:
  void SetUp() override {
    Begin(/*grow=*/true);
    LoseD1();
    Wait(5);
    Hello(1, job_, 0, 2);
    Messages();
  }
  void FinishOnD0() {
    pb::FromWorker finished;
    finished.mutable_finished();
    Report(1, job_, 0, finished, 2);
  }
};

TEST_F(GrowingTest, ItEndsGentlyAndGoesOnWithMore) {
  Wait(10);
  EXPECT_THAT(Messages(), IsEmpty()) << "there is nothing to grow into";
  AddDaemon("d1", 1, 99);
  effects_.events.clear();
  Wait(0.5);
  EXPECT_THAT(Messages(), ElementsAre("1:end 1/0"));
  ASSERT_THAT(effects_.events, SizeIs(1));
  EXPECT_EQ(effects_.events[0].second.notice().text(), "there are devices for 2 devices: ends to go on with these");
  Wait(3);
  EXPECT_THAT(Messages(), IsEmpty()) << "once is enough";
  const int attempts = state_.Find(job_)->attempts();
  FinishOnD0();
  EXPECT_THAT(Messages(), ElementsAre("1:dismiss 1/0"));
  EXPECT_EQ(State(job_), pb::RUNNING) << "its worker has not exited yet";
  Exit(1, job_, 0, 0, 0, 2);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
  EXPECT_EQ(state_.Find(job_)->fallback(), 0);
  EXPECT_EQ(state_.Find(job_)->attempts(), attempts + 1) << "that was no attempt less";
  EXPECT_FALSE(state_.Find(job_)->growing());
}

TEST_F(GrowingTest, DevicesThatOthersHaveAreNotGrownInto) {
  AddDaemon("d1", 1, 99);
  const int64_t other = *state_.Submit(Accept(EmptyJob(1, 1)), now_, effects_);
  Hello(3, other, 0);
  Messages();
  Wait(5);
  EXPECT_THAT(Messages(), IsEmpty());
  Finished(3, other, 0);
  Exit(3, other, 0, 0);
  Messages();
  Wait(0.5);
  EXPECT_THAT(Messages(), ElementsAre("1:end 1/0"));
}

TEST_F(GrowingTest, NorWhileAJobWaits) {
  *state_.Submit(Accept(EmptyJob(2, 1)), now_, effects_);
  AddDaemon("d1", 1, 99);
  Wait(5);
  EXPECT_THAT(Messages(), IsEmpty()) << "the other job has waited for these";
}

TEST_F(GrowingTest, WhoWasAskedToEndByTheUserEnds) {
  AddDaemon("d1", 1, 99);
  Wait(0.5);
  EXPECT_OK(state_.Cancel(job_, /*gently=*/true, now_, effects_));
  FinishOnD0();
  EXPECT_EQ(State(job_), pb::CANCELLED);
}

TEST_F(GrowingTest, AFailureMeanwhileIsOneAsAlways) {
  AddDaemon("d1", 1, 99);
  Wait(0.5);
  Messages();
  const int attempts = state_.Find(job_)->attempts();
  Exit(1, job_, 0, 0, SIGKILL, 2);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
  EXPECT_EQ(state_.Find(job_)->attempts(), attempts);
  EXPECT_FALSE(state_.Find(job_)->growing());
}

TEST_F(GrowingTest, AWorkerThatDoesNotExitIsStopped) {
  AddDaemon("d1", 1, 99);
  Wait(0.5);
  FinishOnD0();
  Messages();
  Wait(60);
  EXPECT_THAT(Messages(), Contains("1:stop 1"));
  Exit(1, job_, 0, 0, SIGKILL, 2);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
}

TEST_F(GrowingTest, ARestartedSchedulerGoesOnWithIt) {
  AddDaemon("d1", 1, 99);
  Wait(0.5);
  Store();
  RestartScheduler();
  AddDaemon("d0", 1, 10, "h", {Running(job_, 0, true, 2)});
  EXPECT_THAT(Messages(), Contains("4:end 1/0")) << "it may not have heard";
  AddDaemon("d1", 1, 99);
  pb::FromWorker finished;
  finished.mutable_finished();
  Report(4, job_, 0, finished, 2);
  Store();
  RestartScheduler();
  AddDaemon("d0", 1, 10);
  AddDaemon("d1", 1, 99);
  EXPECT_EQ(State(job_), pb::STARTING) << Message(job_);
  EXPECT_EQ(state_.Find(job_)->fallback(), 0);
}

}  // namespace
}  // namespace oneflow
