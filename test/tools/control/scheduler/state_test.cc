// The life of a job: from submission to its end, cancelled, saved, described.
#include <csignal>
#include <map>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/control/scheduler/scheduler_state_test.h"
#include "test/tools/support/job_spec.h"

namespace oneflow {
namespace {

TEST_F(SchedulerStateTest, AJobRunsFromSubmissionToItsEnd) {
  AddDaemon("d0", 1);
  AddDaemon("d1", 1, 13);
  const int64_t job = Submit(2, 1);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "2:start 1/1"));
  Hello(1, job, 0);
  EXPECT_THAT(Messages(), IsEmpty()) << "the second worker's address is not known yet";
  Hello(2, job, 1);
  ASSERT_THAT(effects_.messages, SizeIs(2));
  EXPECT_THAT(effects_.messages[1].second.to_worker().message().start().peer_addresses(), ElementsAre("a:0", "a:1"));
  EXPECT_THAT(Messages(), ElementsAre("1:go 1/0", "2:go 1/1"));
  Fetched(1, job, 0, {5, 4});
  PhaseDone(1, job, 0);
  PhaseDone(1, job, 0);
  Fetched(2, job, 1, {3});
  PhaseDone(2, job, 1);
  PhaseDone(2, job, 1);
  Finished(1, job, 0);
  EXPECT_THAT(Messages(), IsEmpty()) << "a worker must not go before its peers have finished";
  Finished(2, job, 1);
  EXPECT_THAT(Messages(), ElementsAre("1:dismiss 1/0", "2:dismiss 1/1"));
  EXPECT_THAT(Events(), ElementsAre("QUEUED", "STARTING", "RUNNING", "value 5", "value 4", "value 3", "phase 0",
                                    "phase 1", "FINISHED"));
  Exit(1, job, 0, 0);
  Exit(2, job, 1, 0);
  Advance(absl::Seconds(1));
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_EQ(State(job), pb::FINISHED);
}

TEST_F(SchedulerStateTest, WhatWorkersCountedIsToldBeforeThePhaseIsDone) {
  AddDaemon("d0", 2);
  const int64_t job = Submit(2, 1);
  Hello(1, job, 0);
  Hello(1, job, 1);
  effects_.events.clear();
  for (const int process : {0, 1}) {
    pb::FromWorker message;
    message.mutable_phase_done()->mutable_stats()->set_acts(10 + process);
    Report(1, job, process, message);
  }
  ASSERT_THAT(effects_.events, SizeIs(3));
  for (const int process : {0, 1}) {
    const pb::PhaseStats& stats = effects_.events[process].second.stats();
    EXPECT_EQ(stats.process(), process);
    EXPECT_EQ(stats.stats().acts(), 10 + process);
  }
  EXPECT_TRUE(effects_.events[2].second.has_phase_done());
}

TEST_F(SchedulerStateTest, EventsAreNumberedWithoutGapsPerJob) {
  AddDaemon("d0", 1);
  Submit(1, 1);
  Submit(1, 1);
  Hello(1, 1, 0);
  std::map<int64_t, std::vector<int64_t>> sequences;
  for (const auto& [job, event] : effects_.events) sequences[job].push_back(event.sequence());
  EXPECT_THAT(sequences[1], ElementsAre(0, 1, 2));
  EXPECT_THAT(sequences[2], ElementsAre(0));
  EXPECT_EQ(state_.num_events(1), 3);
}

TEST_F(SchedulerStateTest, AJobIsDescribedWithThePlacesOfItsWorkers) {
  const int64_t job = RunTwo();
  Finished(1, job, 0);
  state_.SessionEnded(2, now_, effects_);
  ASSERT_OK_AND_ASSIGN(const pb::DescribeReply about, state_.Describe(job));
  EXPECT_EQ(about.status().name(), state_.Find(job)->name());
  ASSERT_EQ(about.workers_size(), 2);
  EXPECT_EQ(about.workers(0).state(), "finished");
  EXPECT_EQ(about.workers(0).daemon(), "d0");
  EXPECT_EQ(about.workers(1).state(), "its daemon is away");
  EXPECT_EQ(about.workers(1).pid(), 101);
  EXPECT_THAT(state_.Describe(9).status(), StatusIs(absl::StatusCode::kNotFound, "there is no job 9"));
}

TEST_F(SchedulerStateTest, AskedToSaveARunningJobSavesAndGoesOn) {
  AddDaemon("d0", 1);
  pb::JobSpec spec = EmptyJob(1, 1);
  spec.mutable_checkpoint()->set_path("/checkpoints");
  const int64_t job = *state_.Submit(Accept(spec), now_, effects_);
  EXPECT_THAT(state_.Save(job, effects_), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("STARTING")));
  Hello(1, job, 0);
  Messages();
  EXPECT_OK(state_.Save(job, effects_));
  EXPECT_THAT(Messages(), ElementsAre(absl::StrCat("1:save ", job, "/0")));
  EXPECT_EQ(State(job), pb::RUNNING);
  Finished(1, job, 0);
  EXPECT_EQ(State(job), pb::FINISHED) << "it was not asked to end";
  EXPECT_THAT(state_.Save(job, effects_), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("FINISHED")));
  EXPECT_THAT(state_.Save(99, effects_), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no job 99")));
}

TEST_F(SchedulerStateTest, AJobWithoutCheckpointsCannotSave) {
  const int64_t job = RunTwo();
  EXPECT_THAT(state_.Save(job, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no checkpoint.path")));
  EXPECT_THAT(Messages(), IsEmpty());
}

TEST_F(SchedulerStateTest, CancelStopsARunningJobAndDropsAQueuedOne) {
  const int64_t running = RunTwo(), queued = Submit(1, 1), next = Submit(1, 1);
  EXPECT_OK(state_.Cancel(queued, /*gently=*/false, now_, effects_));
  EXPECT_THAT(Messages(), IsEmpty());
  EXPECT_OK(state_.Cancel(running, /*gently=*/false, now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1", "2:stop 1"));
  Exit(1, running, 0, 0, SIGTERM);
  EXPECT_EQ(State(running), pb::CANCELLED) << "its death was ours";
  EXPECT_EQ(State(next), pb::STARTING);
  EXPECT_THAT(state_.Cancel(running, /*gently=*/false, now_, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition, "job 1 has ended: CANCELLED"));
  EXPECT_THAT(state_.Cancel(9, /*gently=*/false, now_, effects_),
              StatusIs(absl::StatusCode::kNotFound, "there is no job 9"));
}

TEST_F(SchedulerStateTest, AGentleCancelAsksTheWorkersAndTheJobIsCancelledWhenTheyAreDone) {
  const int64_t running = RunTwo(), queued = Submit(1, 1);
  EXPECT_OK(state_.Cancel(running, /*gently=*/true, now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:end 1/0", "2:end 1/1"));
  EXPECT_EQ(State(running), pb::RUNNING);
  EXPECT_OK(state_.Cancel(queued, /*gently=*/true, now_, effects_)) << "there is nobody to ask";
  EXPECT_EQ(State(queued), pb::CANCELLED);
  Finished(1, running, 0);
  Finished(2, running, 1);
  EXPECT_EQ(State(running), pb::CANCELLED);
  EXPECT_EQ(Message(running), "stopped on request");
  EXPECT_THAT(Messages(), ElementsAre("1:dismiss 1/0", "2:dismiss 1/1"));
}

TEST_F(SchedulerStateTest, AJobThatIsAskedToStopIsNotTriedAgain) {
  const int64_t job = RunTwo(/*attempts=*/3);
  EXPECT_OK(state_.Cancel(job, /*gently=*/true, now_, effects_));
  Exit(1, job, 0, 0, SIGKILL);
  EXPECT_EQ(State(job), pb::FAILED);
}

TEST_F(SchedulerStateTest, AJobBetweenTwoAttemptsIsCancelledAtOnceHoweverGently) {
  const int64_t job = RunTwo(/*attempts=*/3);
  Exit(1, job, 0, 0, SIGKILL);
  EXPECT_EQ(State(job), pb::RUNNING) << "its other worker has not exited";
  EXPECT_OK(state_.Cancel(job, /*gently=*/true, now_, effects_));
  EXPECT_EQ(State(job), pb::CANCELLED);
}

}  // namespace
}  // namespace oneflow
