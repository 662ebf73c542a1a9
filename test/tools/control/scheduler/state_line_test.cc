// The waiting line, and where jobs are placed.
#include <csignal>
#include <random>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/control/scheduler/scheduler_state_test.h"
#include "test/tools/support/job_spec.h"

namespace oneflow {
namespace {

TEST_F(SchedulerStateTest, AJobWaitsUntilAllItsProcessesFitAndSaysWhatFor) {
  const int64_t job = Submit(2, 2);
  AddDaemon("d0", 2);
  EXPECT_EQ(State(job), pb::QUEUED);
  EXPECT_EQ(state_.List()[0].message(),
            "host 0 of the plan takes 4 cpu devices, 2 for each process; no machine offers more than 2");
  AddDaemon("d1", 2, 13);
  EXPECT_EQ(State(job), pb::STARTING);
}

TEST_F(SchedulerStateTest, AHostOfThePlanIsOneMachineWhateverItsDaemons) {
  AddDaemon("a0", 2, 10, "a");
  AddDaemon("b0", 1, 11, "b");
  AddDaemon("b1", 1, 12, "b");
  Submit(4, 1, "cpu", /*hosts=*/2);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "1:start 1/1", "2:start 1/2", "3:start 1/3"));
}

TEST_F(SchedulerStateTest, AJobDoesNotLieOnTwoMachinesUnlessItsPlanDoes) {
  AddDaemon("a", 1, 10, "a");
  AddDaemon("b", 1, 11, "b");
  const int64_t together = Submit(2, 1), apart = Submit(2, 1, "cpu", /*hosts=*/2);
  EXPECT_EQ(State(together), pb::QUEUED);
  EXPECT_EQ(state_.List()[0].message(), "host 0 of the plan takes 2 cpu devices; no machine offers more than 1");
  EXPECT_EQ(State(apart), pb::STARTING);
}

TEST_F(SchedulerStateTest, AQueuedJobSaysWhetherItLacksFreeDevicesOrItsTurn) {
  AddDaemon("a", 2, 10, "a");
  AddDaemon("b", 2, 11, "b");
  Submit(1, 1);
  Submit(2, 2, "cpu", /*hosts=*/2);
  Submit(1, 1);
  EXPECT_EQ(
      state_.List()[1].message(),
      "the plan's 2 hosts take 4 cpu devices, 2 for each process; 2 machines have 2 free, and no host may lie on two");
  EXPECT_EQ(state_.List()[2].message(),
            "another job is first in line, and would wait longer for its devices if this one had them");
}

TEST_F(SchedulerStateTest, NoJobOvertakesOneThatCouldRunLater) {
  AddDaemon("d0", 2);
  Submit(1, 1);
  const int64_t large = Submit(1, 2), small = Submit(1, 1);
  EXPECT_EQ(State(large), pb::QUEUED);
  EXPECT_EQ(State(small), pb::QUEUED) << "one device is free, but the larger job came first";
  Exit(1, 1, 0, 1);
  EXPECT_EQ(State(large), pb::STARTING);
  EXPECT_EQ(State(small), pb::QUEUED);
}

TEST_F(SchedulerStateTest, AJobThatNoDaemonCouldHoldDoesNotBlockOthers) {
  AddDaemon("d0", 1);
  const int64_t impossible = Submit(1, 8), cuda = Submit(1, 1, "cuda"), small = Submit(1, 1);
  EXPECT_EQ(State(impossible), pb::QUEUED);
  EXPECT_EQ(State(cuda), pb::QUEUED);
  EXPECT_EQ(State(small), pb::STARTING);
}

TEST_F(SchedulerStateTest, DevicesAreTakenUntilTheWorkerHasExited) {
  AddDaemon("d0", 1);
  const int64_t first = Submit(1, 1), second = Submit(1, 1);
  Hello(1, first, 0);
  Finished(1, first, 0);
  EXPECT_EQ(State(first), pb::FINISHED);
  EXPECT_EQ(State(second), pb::QUEUED);
  Exit(1, first, 0, 0);
  EXPECT_EQ(State(second), pb::STARTING);
}

TEST_F(SchedulerStateTest, AWorkerThatWillNotExitAfterItsJobIsStopped) {
  const int64_t job = RunTwo();
  Finished(1, job, 0);
  Finished(2, job, 1);
  Exit(1, job, 0, 0);
  Messages();
  for (int i = 0; i < 9; ++i) Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(1));
  EXPECT_THAT(Messages(), IsEmpty());
  Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(1));
  EXPECT_THAT(Messages(), ElementsAre("2:stop 1"));
  EXPECT_EQ(State(job), pb::FINISHED);
}

TEST_F(SchedulerStateTest, AQueueIsNotEndless) {
  SchedulerLimits limits;
  limits.queued = 2;
  state_ = SchedulerState(limits);
  AddDaemon("d0", 1);
  for (int i = 0; i < 3; ++i) Submit(1, 1);
  EXPECT_THAT(state_.Submit(Accept(EmptyJob(1, 1)), now_, effects_).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, "2 jobs are in the queue, and that is all it may hold"));
  EXPECT_OK(state_.Cancel(2, /*gently=*/false, now_, effects_));
  EXPECT_OK(state_.Submit(Accept(EmptyJob(1, 1)), now_, effects_).status());
}

TEST_F(SchedulerStateTest, TheLineIsByPriorityAndThenByNumber) {
  AddDaemon("d0", 1, 10);
  const int64_t running = SubmitAs("ada", 1, 1);
  const int64_t low = SubmitAs("ada", 1, 1, -5), early = SubmitAs("ada", 1, 1), late = SubmitAs("ada", 1, 1);
  const int64_t high = SubmitAs("ada", 1, 1, 7);
  int64_t ends = running;
  for (const int64_t next : {high, early, late, low}) {
    EXPECT_EQ(State(next), pb::QUEUED);
    EXPECT_OK(state_.Cancel(ends, /*gently=*/false, now_, effects_));
    Exit(1, ends, 0, 0, SIGTERM);
    EXPECT_EQ(State(next), pb::STARTING) << next;
    ends = next;
  }
}

TEST_F(SchedulerStateTest, NobodyHasMoreDevicesThanAUserMay) {
  SchedulerLimits limits;
  limits.devices_per_user = 2;
  state_ = SchedulerState(limits);
  AddDaemon("d0", 4, 10);
  const int64_t first = SubmitAs("ada", 1, 2), second = SubmitAs("ada", 1, 1), other = SubmitAs("bob", 1, 2);
  EXPECT_EQ(State(first), pb::STARTING);
  EXPECT_EQ(State(other), pb::STARTING) << "who must wait for himself holds up nobody";
  EXPECT_EQ(state_.List()[1].message(), "a user may have 2 cpu devices; 'ada' has 2, and the job takes 1");
  Exit(1, first, 0, 1);
  EXPECT_EQ(State(second), pb::STARTING);
}

// Daemons of 4 and 3 devices. A job of one process with 3 devices runs on each, and another with 3 waits.
TEST_F(SchedulerStateTest, WhatTheFirstInLineCannotUseGoesToThoseBehindIt) {
  AddDaemon("d0", 4, 10, "g"), AddDaemon("d1", 3, 12, "h");
  SubmitAs("ada", 1, 3), SubmitAs("ada", 1, 3);
  const int64_t first = SubmitAs("ada", 1, 3);
  EXPECT_EQ(State(first), pb::QUEUED);
  EXPECT_EQ(State(SubmitAs("ada", 1, 1)), pb::STARTING) << "one device of d0 is left over whatever ends";
}

// A daemon of 4 devices, of which 2 are free; the first in line waits for 4.
TEST_F(SchedulerStateTest, WhatTheFirstInLineMayNeedIsKeptForIt) {
  AddDaemon("d0", 4, 10);
  const int64_t running = SubmitAs("ada", 1, 2), first = SubmitAs("ada", 1, 4), behind = SubmitAs("ada", 1, 1);
  EXPECT_EQ(State(behind), pb::QUEUED);
  EXPECT_EQ(state_.List()[2].message(),
            "another job is first in line, and would wait longer for its devices if this one had them");
  Exit(1, running, 0, 1);
  EXPECT_EQ(State(first), pb::STARTING);
}

// The promise itself: whatever is submitted and ends, the first in line begins no later than it would if nobody had
// been let past it.
TEST_F(SchedulerStateTest, NothingDelaysTheFirstInLine) {
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](int n) { return static_cast<int>(random() % n); };
    std::vector<int> offered(1 + below(3));
    for (int& devices : offered) devices = 1 + below(8);
    std::vector<std::pair<int, int>> jobs(12);  // processes and devices of each
    for (auto& [processes, devices] : jobs) processes = 1 + below(2), devices = 1 + below(4);
    // Where all that run before the first in line end in the same order, it begins after as many ends.
    int begins[2];
    for (const bool others : {false, true}) {
      state_ = SchedulerState();
      effects_ = {};
      last_session_ = 0;
      std::mt19937 order(seed);
      for (size_t i = 0; i < offered.size(); ++i) AddDaemon(absl::StrCat("d", i), offered[i], 10 + i, absl::StrCat(i));
      int64_t first = 0;
      std::vector<int64_t> running;
      for (const auto& [processes, devices] : jobs) {
        if (first != 0 && !others) break;
        const int64_t job = SubmitAs("ada", processes, devices);
        if (State(job) == pb::STARTING && first == 0) running.push_back(job);
        const bool waits = State(job) == pb::QUEUED && absl::StrContains(state_.List().back().message(), "free");
        if (waits && first == 0) first = job;
      }
      std::shuffle(running.begin(), running.end(), order);
      begins[others] = -1;
      for (size_t ended = 0; first != 0 && ended < running.size() && begins[others] < 0; ++ended) {
        EndWithAllWorkers(running[ended]);
        if (State(first) != pb::QUEUED) begins[others] = static_cast<int>(ended);
      }
    }
    EXPECT_EQ(begins[0], begins[1]) << "seed " << seed;
  }
}

TEST_F(SchedulerStateTest, JobsTakeMemoryOfMachines) {
  pb::DaemonHello hello;
  hello.set_name("d0"), hello.set_host("h"), hello.set_memory("m"), hello.set_cpu_devices(8);
  hello.set_memory_bytes(10'000'000'000);
  ASSERT_OK(state_.DaemonHello(++last_session_, hello, now_, effects_));
  const auto submit = [&](int processes, double gigabytes) {
    return *state_.Submit(Accept(EmptyJob(processes, 1, 1, static_cast<int64_t>(gigabytes * 1e9))), now_, effects_);
  };
  const int64_t first = submit(2, 3), second = submit(1, 5), small = submit(1, 0.5), never = submit(1, 10.1);
  EXPECT_EQ(State(first), pb::STARTING);
  EXPECT_EQ(state_.Nodes().nodes(0).used_memory_bytes(), 6'000'000'000);
  EXPECT_EQ(State(second), pb::QUEUED);
  EXPECT_EQ(State(small), pb::QUEUED) << "it could take what the second waits for";
  EXPECT_EQ(state_.List()[1].message(),
            "host 0 of the plan takes 5.0 GB of memory; no machine has more than 4.0 GB free");
  EXPECT_EQ(state_.List()[3].message(),
            "host 0 of the plan takes 10.1 GB of memory; no machine offers more than 10.0 GB");
  EndWithAllWorkers(first);
  EXPECT_EQ(State(second), pb::STARTING);
  EXPECT_EQ(State(small), pb::STARTING);
  EXPECT_EQ(State(never), pb::QUEUED);
  EXPECT_EQ(state_.Nodes().nodes(0).used_memory_bytes(), 5'500'000'000);
}

}  // namespace
}  // namespace oneflow
