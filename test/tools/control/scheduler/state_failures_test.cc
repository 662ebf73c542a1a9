// Failures and what explains them; other attempts of a job.
#include <csignal>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/control/scheduler/scheduler_state_test.h"
#include "test/tools/support/job_spec.h"

namespace oneflow {
namespace {

TEST_F(SchedulerStateTest, AJobThatFailedIsTriedAgainOnRequestWhenItsWorkersHaveExited) {
  const int64_t job = RunTwo();
  EXPECT_THAT(state_.Retry(9, {}, now_, effects_), StatusIs(absl::StatusCode::kNotFound, "there is no job 9"));
  EXPECT_THAT(state_.Retry(job, Accept(EmptyJob(2, 1)), now_, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "job 1 is RUNNING; one that FAILED or was CANCELLED may be tried again"));
  Exit(1, job, 0, 0, SIGKILL);
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_THAT(state_.Retry(job, Accept(EmptyJob(2, 1)), now_, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "worker 1 (pid 101) on daemon 'd1' has not exited yet: ask again"));
  Exit(2, job, 1, 0, SIGTERM);
  Store();
  effects_ = {};
  EXPECT_OK(state_.Retry(job, Accept(EmptyJob(2, 1)), now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "2:start 1/1"));
  EXPECT_EQ(effects_.events[0].second.state().message(), "attempt 2 of 2 on request");
  ASSERT_THAT(effects_.new_jobs, SizeIs(1)) << "its spec and plan may no longer be kept";
  EXPECT_EQ(state_.Find(job)->finished_us(), 0) << "it has not ended";
  Exit(1, job, 0, 0, SIGKILL, /*attempt=*/2);
  EXPECT_EQ(State(job), pb::FAILED) << "once more, not for ever";
}

TEST_F(SchedulerStateTest, AKilledWorkerFailsTheJobAndStopsThePeers) {
  const int64_t job = RunTwo();
  Exit(2, job, 1, 0, SIGKILL);
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_EQ(Message(job), "worker 1 (pid 101) on daemon 'd1' was killed by signal 9 (SIGKILL)");
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
  EXPECT_THAT(Events(), ElementsAre("FAILED"));
}

TEST_F(SchedulerStateTest, ADeathExplainsTheComplaintsThatCameBeforeIt) {
  const int64_t job = RunTwo();
  Failed(1, job, 0, absl::StatusCode::kUnavailable, "process 1: connection lost");
  Exit(1, job, 0, 1);
  Advance(absl::Milliseconds(900));
  EXPECT_EQ(State(job), pb::RUNNING);
  Exit(2, job, 1, 0, SIGSEGV);
  EXPECT_THAT(Message(job), HasSubstr("worker 1 (pid 101) on daemon 'd1' was killed by signal 11 (SIGSEGV)"));
}

TEST_F(SchedulerStateTest, AComplaintIsTheCauseWhenNothingExplainsItInTime) {
  const int64_t job = RunTwo();
  Failed(1, job, 0, absl::StatusCode::kAborted, "another failed");
  Failed(2, job, 1, absl::StatusCode::kUnavailable, "process 0: connection lost");
  Advance(absl::Milliseconds(999));
  EXPECT_EQ(State(job), pb::RUNNING);
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_EQ(Message(job), "worker 1 (pid 101) on daemon 'd1': process 0: connection lost");
}

TEST_F(SchedulerStateTest, AnErrorOfItsOwnIsTheCauseAtOnceAndTheFirstWins) {
  const int64_t job = RunTwo();
  Failed(1, job, 0, absl::StatusCode::kAborted, "another failed");
  Failed(2, job, 1, absl::StatusCode::kResourceExhausted, "out of memory");
  EXPECT_EQ(Message(job), "worker 1 (pid 101) on daemon 'd1': out of memory");
  Failed(1, job, 0, absl::StatusCode::kInternal, "too late");
  Exit(1, job, 0, 0, SIGKILL);
  Advance(absl::Seconds(2));
  EXPECT_EQ(Message(job), "worker 1 (pid 101) on daemon 'd1': out of memory");
  EXPECT_THAT(Events(), ElementsAre("FAILED")) << "a job ends once";
}

TEST_F(SchedulerStateTest, AnExitWithoutAWordIsAFailureEvenWithCodeZero) {
  const int64_t job = RunTwo();
  Exit(1, job, 0, 0);
  EXPECT_EQ(Message(job), "worker 0 (pid 100) on daemon 'd0' exited with code 0 before it had finished");
}

TEST_F(SchedulerStateTest, ALostDaemonFailsWhatItRan) {
  const int64_t job = RunTwo();
  Failed(1, job, 0, absl::StatusCode::kUnavailable, "process 1: connection lost");
  state_.SessionEnded(2, now_, effects_);
  Heartbeat(1), Advance(absl::Milliseconds(1400));
  EXPECT_EQ(State(job), pb::RUNNING) << "it may come back, and a complaint waits for that";
  Heartbeat(1), Advance(absl::Milliseconds(100));
  EXPECT_EQ(Message(job), "daemon 'd1' (pid 12) was lost: its connection closed; it ran worker 1 of job 1");
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
}

TEST_F(SchedulerStateTest, AWorkerThatSaysNoHelloFailsTheJob) {
  AddDaemon("d0", 2);
  const int64_t job = Submit(2, 1);
  Hello(1, job, 0);
  for (int i = 0; i < 60; ++i) Heartbeat(1), Advance(absl::Seconds(1));
  EXPECT_EQ(Message(job), "worker 1 on daemon 'd0' was not ready within 1m");
}

TEST_F(SchedulerStateTest, MessagesOfOthersAreIgnored) {
  const int64_t job = RunTwo();
  Exit(1, job, 1, 0, SIGKILL);                 // worker 1 runs on d1
  Exit(2, job, 1, 0, SIGKILL, /*attempt=*/7);  // it is at 1
  Exit(2, job, 5, 0, SIGKILL);                 // no such process
  Exit(2, 99, 0, 0, SIGKILL);                  // no such job
  Exit(77, job, 0, 0, SIGKILL);                // no such daemon
  EXPECT_EQ(State(job), pb::RUNNING);
  EXPECT_THAT(Messages(), IsEmpty());
}

TEST_F(SchedulerStateTest, AJobThatMayBeTriedAgainWaitsForTheEndOfItsWorkers) {
  const int64_t job = RunTwo(/*attempts=*/3);
  Exit(2, job, 1, 0, SIGKILL);
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
  EXPECT_EQ(State(job), pb::RUNNING) << "worker 0 still holds its device";
  EXPECT_THAT(Events(), IsEmpty());
  Exit(1, job, 0, 0, SIGTERM);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "2:start 1/1"));
  ASSERT_THAT(effects_.events, SizeIs(2));
  EXPECT_EQ(effects_.events[0].second.state().state(), pb::QUEUED);
  EXPECT_EQ(effects_.events[0].second.state().message(),
            "attempt 2 of 3 after: worker 1 (pid 101) on daemon 'd1' was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(state_.Find(job)->attempt(), 2);
}

TEST_F(SchedulerStateTest, ALaterAttemptRunsToTheEndAndHearsNothingOfTheFormer) {
  const int64_t job = RunTwo(2);
  PhaseDone(1, job, 0);
  Exit(1, job, 0, 1);
  Exit(2, job, 1, 1);
  Messages();
  Hello(1, job, 0);  // what the first attempt said late
  Hello(2, job, 1);
  PhaseDone(2, job, 1);
  Exit(2, job, 1, 0, SIGKILL);
  Failed(1, job, 0, absl::StatusCode::kInternal, "of attempt 1");
  EXPECT_EQ(State(job), pb::STARTING);
  EXPECT_THAT(Messages(), IsEmpty());
  Hello(1, job, 0, 2);
  Hello(2, job, 1, 2);
  EXPECT_EQ(State(job), pb::RUNNING);
  ASSERT_THAT(effects_.messages, SizeIs(2));
  EXPECT_EQ(effects_.messages[0].second.to_worker().attempt(), 2);
  effects_ = {};
  Finished(1, job, 0);  // late again
  Finished(2, job, 1);
  EXPECT_EQ(State(job), pb::RUNNING);
}

TEST_F(SchedulerStateTest, ALostDaemonsJobGoesOnElsewhere) {
  const int64_t job = RunTwo(2);
  AddDaemon("d2", 1, 14);
  state_.SessionEnded(2, now_, effects_);
  Heartbeat(1), Heartbeat(3), Advance(absl::Milliseconds(1500));
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
  Exit(1, job, 0, 0, SIGTERM);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
}

TEST_F(SchedulerStateTest, TheLastAttemptFailsTheJob) {
  const int64_t job = RunTwo(2);
  for (const uint64_t attempt : {1, 2}) {
    Failed(1, job, 0, absl::StatusCode::kInternal, "the device fell off", attempt);
    Exit(1, job, 0, 1, 0, attempt);
    Exit(2, job, 1, 0, SIGTERM, attempt);
  }
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_EQ(Message(job), "worker 0 on daemon 'd0': the device fell off");
  EXPECT_EQ(state_.Find(job)->attempt(), 2);
  EXPECT_EQ(state_.Find(job)->attempts(), 2);
}

TEST_F(SchedulerStateTest, WhatIsWrongWithTheJobItselfIsNotTriedAgain) {
  const int64_t job = RunTwo(5);
  Failed(1, job, 0, absl::StatusCode::kInvalidArgument, "the data has no labels");
  EXPECT_EQ(State(job), pb::FAILED);
}

TEST_F(SchedulerStateTest, AComplaintThatNothingExplainsIsTriedAgainToo) {
  const int64_t job = RunTwo(2);
  Failed(1, job, 0, absl::StatusCode::kUnavailable, "process 1: connection lost");
  Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(1));
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1", "2:stop 1"));
  Exit(1, job, 0, 1);
  Exit(2, job, 1, 0, SIGTERM);
  EXPECT_EQ(State(job), pb::STARTING);
}

TEST_F(SchedulerStateTest, AJobIsCancelledWhileItIsStoppedForAnotherAttempt) {
  const int64_t job = RunTwo(2);
  Exit(2, job, 1, 0, SIGKILL);
  EXPECT_OK(state_.Cancel(job, /*gently=*/false, now_, effects_));
  Exit(1, job, 0, 0, SIGTERM);
  EXPECT_EQ(State(job), pb::CANCELLED);
  EXPECT_THAT(Events(), ElementsAre("CANCELLED"));
}

TEST_F(SchedulerStateTest, AJobThatIsTriedAgainComesBeforeLaterOnes) {
  const int64_t job = RunTwo(2), next = Submit(2, 1);
  Exit(1, job, 0, 1);
  Exit(2, job, 1, 1);
  EXPECT_EQ(State(job), pb::STARTING);
  EXPECT_EQ(State(next), pb::QUEUED);
}

}  // namespace
}  // namespace oneflow
