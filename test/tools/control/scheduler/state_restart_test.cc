// Another scheduler on the same store, and what is forgotten.
#include <csignal>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/control/scheduler/scheduler_state_test.h"
#include "test/tools/support/job_spec.h"

namespace oneflow {
namespace {

TEST_F(SchedulerStateTest, ARestartedSchedulerGoesOnWithItsJobs) {
  const int64_t job = RunTwo();
  pb::FromDaemon done;
  done.set_number(3);
  done.mutable_report()->set_job(job);
  done.mutable_report()->set_attempt(1);
  done.mutable_report()->mutable_message()->mutable_phase_done();
  state_.DaemonMessage(1, done, now_, effects_);
  const int64_t queued = Submit(1, 1);
  Store();
  RestartScheduler();
  EXPECT_EQ(State(job), pb::RUNNING);
  EXPECT_EQ(State(queued), pb::QUEUED);
  const SessionId first = AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  EXPECT_EQ(State(queued), pb::QUEUED) << "the device is taken";
  Advance(absl::Seconds(2));
  const SessionId second = AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  state_.DaemonMessage(first, done, now_, effects_);  // it does not know whether it was stored
  PhaseDone(second, job, 1);
  EXPECT_THAT(Events(), ElementsAre("phase 0")) << "it was counted once, and events go on";
  Finished(first, job, 0);
  Finished(second, job, 1);
  EXPECT_EQ(State(job), pb::FINISHED);
  Exit(first, job, 0, 0);
  EXPECT_EQ(State(queued), pb::STARTING);
  EXPECT_EQ(Submit(1, 1), 3) << "numbers are not used twice";
}

TEST_F(SchedulerStateTest, ARestartedSchedulerAsksWorkersToStopThatMayNotHaveHeardIt) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.Cancel(job, /*gently=*/true, now_, effects_));
  Store();
  RestartScheduler();
  const SessionId first = AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  const SessionId second = AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  EXPECT_THAT(Messages(), ElementsAre("3:end 1/0", "4:end 1/1"));
  Finished(first, job, 0);
  Finished(second, job, 1);
  EXPECT_EQ(State(job), pb::CANCELLED);
  Store();
  RestartScheduler();
  AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  EXPECT_THAT(Messages(), ElementsAre("5:dismiss 1/0")) << "it is not killed: its peer may still read its registers";
}

TEST_F(SchedulerStateTest, ADaemonThatDoesNotFindTheRestartedSchedulerIsLost) {
  const int64_t job = RunTwo(2);
  RestartScheduler();
  AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  for (int i = 0; i < 9; ++i) Heartbeat(1), Heartbeat(3), Advance(absl::Seconds(1));
  EXPECT_EQ(State(job), pb::RUNNING);
  Heartbeat(3), Advance(absl::Seconds(1));
  EXPECT_THAT(Messages(), ElementsAre("3:stop 1"));
  Store();
  RestartScheduler();  // it is known that the job was being stopped, and why
  AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  EXPECT_THAT(Messages(), ElementsAre("4:stop 1"));
  Exit(4, job, 0, 0, SIGTERM);
  EXPECT_EQ(State(job), pb::QUEUED);
  EXPECT_EQ(effects_.events[0].second.state().message(),
            "attempt 2 of 2 after: daemon 'd1' (pid 12) was lost: it did not come back within 10s of the scheduler's "
            "restart; it ran worker 1 of job 1");
}

TEST_F(SchedulerStateTest, ADaemonThatComesBackWithoutAWorkerSaysSo) {
  const int64_t job = RunTwo();
  RestartScheduler();
  AddDaemon("d0", 1, 10);
  EXPECT_EQ(Message(job), "daemon 'd0' came back without worker 0 of job 1");
}

TEST_F(SchedulerStateTest, LogsOfAnEndedJobAreFoundByARestartedScheduler) {
  const int64_t job = RunTwo();
  Exit(1, job, 0, 1);
  Exit(2, job, 1, 0, SIGTERM);
  Store();
  RestartScheduler();
  AddDaemon("d0", 1, 10);
  EXPECT_OK(state_.QueryLogs(5, AskLogs(job), now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("3:logs 1/0"));
}

TEST_F(SchedulerStateTest, AfterARestartAJobThatThisVersionRefusesHasFailed) {
  StoredJob stored;
  stored.status.set_job(1);
  stored.valid = absl::InvalidArgumentError("the plan's SHA-256 is 00");
  state_.Restore({stored}, {}, now_, effects_);
  EXPECT_EQ(Message(1), "the restarted scheduler refuses the job: the plan's SHA-256 is 00");
}

TEST_F(SchedulerStateTest, AJobThatRanUnderVersion1OfTheStoreHasFailed) {
  StoredJob stored;
  stored.status.set_job(1);
  stored.status.set_state(pb::RUNNING);
  stored.spec = EmptyJob(1, 1);
  state_.Restore({stored}, {}, now_, effects_);
  EXPECT_EQ(Message(1), "the store does not say where the job ran");
}

TEST_F(SchedulerStateTest, ATickLooksAtNoJobThatHasEnded) {
  constexpr int kEnded = 100'000;
  std::vector<StoredJob> jobs(kEnded);
  for (int i = 0; i < kEnded; ++i) {
    jobs[i].status.set_job(i + 1);
    jobs[i].status.set_state(i % 2 == 0 ? pb::FINISHED : pb::FAILED);
    jobs[i].workers.resize(1);
    jobs[i].workers[0].set_daemon("d0");
    jobs[i].workers[0].set_released(true);
  }
  state_.Restore(std::move(jobs), {}, now_, effects_);
  const SessionId d0 = AddDaemon("d0", 2);
  const int64_t job = Submit(1, 1);
  Submit(1, 1);
  Submit(1, 1);  // waits
  Hello(d0, job, 0);
  const int64_t before = state_.num_looks();
  for (int tick = 0; tick < 100; ++tick) {
    Heartbeat(d0);
    state_.Tick(now_, effects_);
    now_ += absl::Milliseconds(100);
  }
  EXPECT_EQ(state_.num_looks() - before, 100 * 3);
  EndWithAllWorkers(job);
  Submit(1, 1);
  EXPECT_LT(state_.num_looks() - before, 100 * 3 + 100) << "nor does placement";
  EXPECT_EQ(state_.List().size(), size_t{kEnded} + 4);
}

TEST_F(SchedulerStateTest, AJobIsForgottenWhenNothingOfItIsLeft) {
  const SessionId d0 = AddDaemon("d0", 1);
  const int64_t job = Submit(1, 1);
  Submit(1, 1);  // the newest, which waits
  EXPECT_FALSE(state_.Forget(job, effects_));
  EXPECT_OK(state_.Cancel(job, /*gently=*/false, now_, effects_));
  EXPECT_FALSE(state_.Forget(job, effects_)) << "its worker has not exited";
  Exit(d0, job, 0, 0, SIGTERM);
  effects_ = {};
  EXPECT_TRUE(state_.Forget(job, effects_));
  ASSERT_THAT(effects_.messages, SizeIs(1));
  EXPECT_EQ(effects_.messages[0].first, d0);
  EXPECT_EQ(effects_.messages[0].second.forget().job(), job);
  EXPECT_THAT(state_.Find(job).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no job 1")));
  EXPECT_TRUE(state_.HasEnded(job));
  EXPECT_EQ(state_.num_events(job), 0);
  state_.Tick(now_, effects_);
  EXPECT_TRUE(state_.Forget(job, effects_)) << "it is";
  EndWithAllWorkers(2);
  EXPECT_TRUE(state_.Forget(2, effects_));
  EXPECT_OK(state_.Find(2).status()) << "of the newest the number is still needed";
  EXPECT_EQ(Submit(1, 1), 3);
  EXPECT_TRUE(state_.Forget(2, effects_));
  EXPECT_FALSE(state_.Find(2).ok());
}

}  // namespace
}  // namespace oneflow
