// Daemons: names, leases, a machine that sleeps, connections that come back.
#include <csignal>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/control/scheduler/scheduler_state_test.h"

namespace oneflow {
namespace {

TEST_F(SchedulerStateTest, ADrainedDaemonFinishesWhatItHasAndGetsNothingNew) {
  AddDaemon("d0", 2, 10);
  const int64_t job = Submit(1, 1);
  EXPECT_OK(state_.Drain("d0", /*undo=*/false, now_, effects_));
  EXPECT_EQ(State(job), pb::STARTING);
  const int64_t next = Submit(1, 1);
  EXPECT_EQ(state_.List()[1].message(), "every daemon is drained (drained: 1)");
  Store();
  RestartScheduler();
  AddDaemon("d0", 2, 10, "h", {Running(job, 0, /*started=*/false)});
  EXPECT_EQ(State(next), pb::QUEUED) << "also when it comes back, to another scheduler";
  ASSERT_EQ(state_.Nodes().nodes_size(), 1);
  const pb::Node node = state_.Nodes().nodes(0);
  EXPECT_TRUE(node.drained() && !node.away());
  EXPECT_EQ(node.used_cpu(), 1);
  EXPECT_THAT(node.jobs(), ElementsAre(job));
  EXPECT_OK(state_.Drain("d0", /*undo=*/true, now_, effects_));
  EXPECT_EQ(State(next), pb::STARTING);
  EXPECT_THAT(state_.Drain("d7", false, now_, effects_),
              StatusIs(absl::StatusCode::kNotFound, "there is no daemon 'd7'"));
}

TEST_F(SchedulerStateTest, ASilentDaemonIsLostWhenItsLeaseEnds) {
  const int64_t job = RunTwo();
  for (int i = 0; i < 4; ++i) Heartbeat(1), Advance(absl::Milliseconds(500));
  Heartbeat(1), Advance(absl::Milliseconds(400));
  EXPECT_EQ(State(job), pb::RUNNING);
  Advance(absl::Milliseconds(100));
  EXPECT_EQ(Message(job),
            "daemon 'd1' (pid 12) was lost: no heartbeat for 2.5s (limit 2.5s); it ran worker 1 of job 1");
  ASSERT_THAT(effects_.closed_sessions, SizeIs(1));
  EXPECT_EQ(effects_.closed_sessions[0].first, 2);
  Heartbeat(2);  // too late: nobody knows it any more
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
}

TEST_F(SchedulerStateTest, DaemonsOnItsOwnMachineAreHeardOrStopped) {
  for (const bool own : {false, true}) {
    SCOPED_TRACE(own);
    SchedulerLimits limits;
    limits.memory = own ? "m" : "another";
    state_ = SchedulerState(limits);
    last_session_ = 0;
    const int64_t job = RunTwo();
    Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(3));  // nobody is heard
    EXPECT_EQ(State(job), own ? pb::FAILED : pb::RUNNING);
  }
}

TEST_F(SchedulerStateTest, WhatItSleptThroughIsNoReasonToCallOthersDead) {
  for (const double seconds : {1.5, 4.0, 30.0, 3600.0}) {
    SCOPED_TRACE(seconds);
    state_ = SchedulerState();
    last_session_ = 0;
    const int64_t job = RunTwo();
    Advance(absl::Milliseconds(300));
    Failed(1, job, 0, absl::StatusCode::kUnavailable, "process 1: connection lost");  // waits for a grace
    Sleep(absl::Seconds(seconds));
    EXPECT_EQ(State(job), pb::RUNNING);
    Advance(absl::Milliseconds(600));
    EXPECT_EQ(State(job), pb::RUNNING) << "of the grace, and of the lease, as much is left as there was";
    Heartbeat(1), Heartbeat(2), Advance(absl::Milliseconds(400));
    EXPECT_EQ(Message(job), "worker 0 (pid 100) on daemon 'd0': process 1: connection lost");
  }
}

TEST_F(SchedulerStateTest, AfterASleepADaemonThatIsSilentIsLostAsEver) {
  const int64_t job = RunTwo();
  Advance(absl::Milliseconds(200));
  Sleep(absl::Seconds(30));
  for (int i = 0; i < 4; ++i) Heartbeat(1), Advance(absl::Milliseconds(500));
  EXPECT_EQ(State(job), pb::RUNNING);
  Heartbeat(1), Advance(absl::Milliseconds(500));
  EXPECT_THAT(Message(job), HasSubstr("daemon 'd1' (pid 12) was lost: no heartbeat for 2.5s (limit 2.5s)"));
}

// Their connections did not outlive it, and they come back one after the other.
TEST_F(SchedulerStateTest, AfterASleepDaemonsThatMustConnectAnewHaveTime) {
  const int64_t job = RunTwo();
  Advance(absl::Milliseconds(200));
  Sleep(absl::Seconds(20));
  state_.SessionEnded(1, now_, effects_);
  state_.SessionEnded(2, now_, effects_);
  Advance(absl::Seconds(9));
  EXPECT_EQ(State(job), pb::RUNNING);
  Advance(absl::Milliseconds(1000));
  EXPECT_THAT(Message(job), HasSubstr("was lost: its connection closed"));
}

TEST_F(SchedulerStateTest, WhereNobodyIsHeardAllMayBeSuspended) {
  const int64_t job = RunTwo();
  Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(59));
  EXPECT_EQ(State(job), pb::RUNNING);
  Heartbeat(2), Advance(absl::Milliseconds(100));  // the first that goes on
  EXPECT_EQ(State(job), pb::RUNNING);
  for (int i = 0; i < 4; ++i) Heartbeat(2), Advance(absl::Milliseconds(500));
  EXPECT_EQ(State(job), pb::RUNNING);
  Heartbeat(2), Advance(absl::Milliseconds(500));
  EXPECT_THAT(Message(job), HasSubstr("was lost: no heartbeat for 2.5s (limit 2.5s); it ran worker 0"));
}

TEST_F(SchedulerStateTest, ButNotForEver) {
  const int64_t job = RunTwo();
  Heartbeat(1), Heartbeat(2), Advance(absl::Milliseconds(59'900));
  EXPECT_EQ(State(job), pb::RUNNING);
  Advance(absl::Milliseconds(100));
  EXPECT_THAT(Message(job), HasSubstr("was lost: no heartbeat for 1m (limit 1m)"));
}

// Containers of one machine, or two machines whose administrators chose one name.
TEST_F(SchedulerStateTest, DaemonsOfOneHostNameThatShareNoMemoryAreTwoHosts) {
  AddDaemon("a", 1, 12, "h", {}, "here");
  AddDaemon("b", 1, 13, "h", {}, "there");
  const int64_t one_host = Submit(2, 1);
  EXPECT_EQ(State(one_host), pb::QUEUED);
  EXPECT_EQ(state_.List()[0].message(), "host 0 of the plan takes 2 cpu devices; no machine offers more than 1");
  const int64_t two_hosts = Submit(2, 1, "cpu", /*hosts=*/2);
  EXPECT_EQ(State(two_hosts), pb::STARTING);
}

TEST_F(SchedulerStateTest, TwoDaemonsCannotShareAName) {
  AddDaemon("d0", 1, 10);
  pb::DaemonHello hello;
  hello.set_name("d0");
  hello.set_host("h2");
  hello.set_memory("m");
  hello.set_pid(11);
  hello.set_incarnation(11);
  EXPECT_THAT(
      state_.DaemonHello(50, hello, now_, effects_),
      StatusIs(absl::StatusCode::kAlreadyExists, "the name 'd0' is taken by the daemon with pid 10 on host 'h'"));
}

TEST_F(SchedulerStateTest, ADaemonThatComesBackGoesOnWithItsWorkers) {
  const int64_t job = RunTwo();
  state_.SessionEnded(2, now_, effects_);
  Heartbeat(1), Advance(absl::Seconds(1));
  const SessionId again = AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  ASSERT_THAT(effects_.messages, SizeIs(1)) << "nothing else is to be said";
  ASSERT_THAT(effects_.messages[0].second.welcome().keep(), SizeIs(1));
  Heartbeat(1), Heartbeat(again), Advance(absl::Seconds(2));
  EXPECT_EQ(State(job), pb::RUNNING);
  const int64_t next = Submit(1, 1);
  EXPECT_EQ(State(next), pb::QUEUED) << "its devices are still taken";
  Finished(1, job, 0);
  Finished(again, job, 1);
  EXPECT_EQ(State(job), pb::FINISHED);
}

TEST_F(SchedulerStateTest, ADaemonMayOpenAnotherSessionBeforeTheFirstHasEnded) {
  const int64_t job = RunTwo();
  AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  ASSERT_THAT(effects_.closed_sessions, SizeIs(1));
  EXPECT_EQ(effects_.closed_sessions[0].first, 2);
  state_.SessionEnded(2, now_, effects_);  // as its connection closes now
  Heartbeat(1), Heartbeat(3), Advance(absl::Seconds(2));
  EXPECT_EQ(State(job), pb::RUNNING);
}

TEST_F(SchedulerStateTest, WhatADaemonDidNotHearItIsToldAgain) {
  AddDaemon("d0", 1, 10);
  AddDaemon("d1", 1, 12);
  const int64_t job = Submit(2, 1);
  Messages();
  state_.SessionEnded(2, now_, effects_);
  const SessionId second = AddDaemon("d1", 1, 12);  // without a worker: it was never told to start one
  EXPECT_THAT(Messages(), ElementsAre("3:start 1/1"));
  Hello(1, job, 0);
  state_.SessionEnded(1, now_, effects_);
  Hello(second, job, 1);
  Messages();
  AddDaemon("d0", 1, 10, "h", {Running(job, 0, /*started=*/false)});
  EXPECT_THAT(Messages(), ElementsAre("4:go 1/0"));
  Finished(4, job, 0);
  state_.SessionEnded(4, now_, effects_);
  Finished(second, job, 1);
  Messages();
  AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  EXPECT_THAT(Messages(), ElementsAre("5:dismiss 1/0"));
}

TEST_F(SchedulerStateTest, ADaemonThatWasAwayTooLongHasWorkersOfNobody) {
  const int64_t job = RunTwo();
  state_.SessionEnded(2, now_, effects_);
  Heartbeat(1), Advance(absl::Milliseconds(1500));
  EXPECT_EQ(State(job), pb::FAILED);
  effects_ = {};
  const SessionId again = AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  EXPECT_THAT(effects_.messages[0].second.welcome().keep(), IsEmpty()) << "so it kills them";
  Exit(again, job, 1, 0, SIGKILL);
  EXPECT_THAT(Message(job), HasSubstr("its connection closed"));
  EXPECT_EQ(State(Submit(1, 1)), pb::STARTING);
}

TEST_F(SchedulerStateTest, ADaemonThatWasRestartedHasLostWhatItRan) {
  const int64_t job = RunTwo(2);
  state_.SessionEnded(2, now_, effects_);
  AddDaemon("d1", 1, 15);
  Exit(1, job, 0, 0, SIGTERM);
  EXPECT_EQ(effects_.events[0].second.state().message(),
            "attempt 2 of 2 after: daemon 'd1' (pid 12) was lost: it was restarted (pid 15); it ran worker 1 of job 1");
  EXPECT_EQ(State(job), pb::STARTING);
}

TEST_F(SchedulerStateTest, AReportThatIsSaidTwiceCountsOnce) {
  const int64_t job = RunTwo();
  pb::FromDaemon report;
  report.set_number(1);
  report.mutable_report()->set_job(job);
  report.mutable_report()->set_attempt(1);
  report.mutable_report()->mutable_message()->mutable_fetched()->add_values()->mutable_value()->add_values(5);
  state_.DaemonMessage(1, report, now_, effects_);
  state_.SessionEnded(1, now_, effects_);
  const SessionId again = AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  state_.DaemonMessage(again, report, now_, effects_);
  EXPECT_THAT(Events(), ElementsAre("value 5"));
  EXPECT_EQ(effects_.acknowledged[again], 1) << "so that it is not said a third time";
}

}  // namespace
}  // namespace oneflow
