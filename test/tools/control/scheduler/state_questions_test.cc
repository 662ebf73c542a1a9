// Logs, and what workers wait for.
#include <csignal>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/control/scheduler/scheduler_state_test.h"

namespace oneflow {
namespace {

TEST_F(SchedulerStateTest, WhatWorkersNoticeIsAnEventOfTheJob) {
  const int64_t job = RunTwo();
  pb::FromWorker message;
  message.mutable_notice()->set_text("wrote /c/step-000000005");
  message.mutable_notice()->set_saved_step(5);
  Report(1, job, 0, message);
  ASSERT_EQ(effects_.events.size(), 1u);
  EXPECT_EQ(effects_.events[0].second.notice().text(), "wrote /c/step-000000005");
  EXPECT_EQ(effects_.events[0].second.notice().saved_step(), 5);
}

TEST_F(SchedulerStateTest, LogsComeFromAllDaemonsAlsoAfterTheEnd) {
  const int64_t job = RunTwo();
  Exit(2, job, 1, 1);
  Messages();
  EXPECT_OK(state_.QueryLogs(5, AskLogs(job), now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:logs 1/0", "2:logs 1/1"));
  pb::FromDaemon answer;
  answer.mutable_logs()->set_request(5);
  answer.mutable_logs()->mutable_log()->set_process(1);
  answer.mutable_logs()->mutable_log()->set_text("bye");
  state_.DaemonMessage(2, answer, now_, effects_);
  EXPECT_THAT(effects_.logs, IsEmpty());
  state_.SessionEnded(1, now_, effects_);
  ASSERT_THAT(effects_.logs, SizeIs(1));
  EXPECT_EQ(effects_.logs[0].first, 5);
  EXPECT_EQ(effects_.logs[0].second.logs(0).text(), "(its daemon was lost)\n");
  EXPECT_EQ(effects_.logs[0].second.logs(1).text(), "bye");
}

TEST_F(SchedulerStateTest, AQueryOfLogsEndsThoughADaemonDoesNotAnswer) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.QueryLogs(5, AskLogs(job), now_, effects_));
  for (int i = 0; i < 5; ++i) Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(1));
  ASSERT_THAT(effects_.logs, SizeIs(1));
  EXPECT_EQ(effects_.logs[0].second.logs(1).text(), "(its daemon did not answer within 5s)\n");
}

TEST_F(SchedulerStateTest, AllWorkersAreAskedWhatTheyWaitFor) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.Diagnose(5, job, now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:diagnose 1/0 as 5", "2:diagnose 1/1 as 5"));
  Waits(1, job, 5, 0);
  Waits(1, job, 5, 0);  // again
  Waits(2, job, 4, 1);  // to another question
  EXPECT_THAT(effects_.diagnoses, IsEmpty());
  Waits(2, job, 5, 1);
  ASSERT_THAT(effects_.diagnoses, SizeIs(1));
  EXPECT_EQ(effects_.diagnoses[0].first, 5);
  EXPECT_THAT(effects_.diagnoses[0].second, AllOf(HasSubstr("rank 0 (cpu:0, process 0): its process idles"),
                                                  HasSubstr("rank 1 (cpu:0, process 1): its process idles")));
}

TEST_F(SchedulerStateTest, AWorkerThatDoesNotSayWhatItWaitsForIsNamed) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.Diagnose(5, job, now_, effects_));
  Waits(1, job, 5, 0);
  Advance(absl::Milliseconds(1400));
  EXPECT_THAT(effects_.diagnoses, IsEmpty());
  Advance(absl::Milliseconds(100));
  ASSERT_THAT(effects_.diagnoses, SizeIs(1));
  EXPECT_THAT(effects_.diagnoses[0].second, HasSubstr("process 1 (pid 101 on daemon 'd1') does not answer"));
}

TEST_F(SchedulerStateTest, AQuestionOfAJobThatEndsIsAnsweredWithHow) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.Diagnose(5, job, now_, effects_));
  Exit(2, job, 1, 0, SIGKILL);
  Advance(absl::ZeroDuration());
  ASSERT_THAT(effects_.diagnoses, SizeIs(1));
  EXPECT_THAT(effects_.diagnoses[0].second, HasSubstr("was killed by signal 9"));
  EXPECT_THAT(state_.Diagnose(6, job, now_, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("job 1 does not run: FAILED: worker 1")));
  EXPECT_THAT(state_.Diagnose(7, 9, now_, effects_), StatusIs(absl::StatusCode::kNotFound, "there is no job 9"));
}

TEST_F(SchedulerStateTest, AStallIsToldWithWhatAllWaitFor) {
  const int64_t job = RunTwo();
  Stalled(2, job, 1);
  EXPECT_THAT(Messages(), ElementsAre("1:diagnose 1/0 as -1", "2:diagnose 1/1 as -1"));
  Stalled(1, job, 0);
  EXPECT_THAT(Messages(), IsEmpty()) << "it is being found out";
  Waits(1, job, -1, 0);
  Waits(2, job, -1, 1);
  ASSERT_THAT(effects_.events, SizeIs(1));
  EXPECT_THAT(effects_.events[0].second.stall().text(),
              AllOf(HasSubstr("nothing moved in process 1 for 60 s: "), HasSubstr("rank 0")));
  EXPECT_EQ(State(job), pb::RUNNING);
  EXPECT_THAT(effects_.diagnoses, IsEmpty()) << "nobody has asked";
}

TEST_F(SchedulerStateTest, AStallEndsAJobThatWantsIt) {
  const int64_t job = RunTwo(/*attempts=*/1, /*abort=*/true);
  Stalled(2, job, 1);
  Waits(1, job, -1, 0);
  Waits(2, job, -1, 1, /*acts=*/1);
  EXPECT_EQ(State(job), pb::RUNNING) << "it goes on";
  ASSERT_THAT(effects_.events, SizeIs(1));
  EXPECT_THAT(effects_.events[0].second.stall().text(), HasSubstr("for 3 s, now it goes on: "));
  Stalled(2, job, 1);
  Waits(1, job, -2, 0);
  Waits(2, job, -2, 1);
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_THAT(Message(job), HasSubstr("nothing moved in process 1 for 3 s: "));
}

}  // namespace
}  // namespace oneflow
