// What users see of a job that does not go on, or whose ranks are not alike: the report of a stall, and `oneflow jobs
// diagnose` on a job that runs.
#include <signal.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

TEST(StallsTest, ALoaderThatStopsEndsTheJobWithTheReadThatItIsIn) {
  const Workspace work;
  const Outcome ended = work.Run(
      Join({"run", work.GptJob(), "--set", "data.least_read_ms=10000", "--set", "stall={seconds: 0.5 abort: true}"},
           OnMesh("dp: 2", 2)));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err,
              ContainsRegex("nothing moved in process [01] for 0.5 s: rank [01] \\(cpu:[01], process [01]\\), "
                            "queue host: is in an act for [0-9.]+ s: plan 'train' actor .* node 'read_data' "
                            "\\(read_data, models/language_model.cc:[0-9]+\\) on rank"));
  EXPECT_THAT(ended.err, ContainsRegex("rank 0 .*\nrank 1 ")) << "and what every rank does";
}

TEST(StallsTest, AStallThatEndsIsToldAndTheJobGoesOn) {
  const Workspace work;
  const Outcome ended = work.Run({"run", work.GptJob(), "--set", "data.least_read_ms=700", "--set", "train.steps=2",
                                  "--set", "stall.seconds=0.2"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("nothing moved in process 0 for 0.2 s"), HasSubstr("(read_data, "),
                               HasSubstr("step 2/2")));
}

// A cluster with a job of two processes on it that would train for days.
class DiagnoseTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kLimit = absl::Seconds(60);

  void SetUp() override {
    servers_.push_back(
        work_.Serve({"scheduler", "--address", "127.0.0.1:0", "--db", work_.Path("jobs.db")}, scheduler_));
    for (const char* name : {"left", "right"}) {
      std::string registered;
      servers_.push_back(work_.Serve(
          {"daemon", "--scheduler", scheduler_, "--name", name, "--cores", "1", "--work-dir", work_.Path(name)},
          registered));
    }
    const Outcome submitted = work_.Run(Join(Join({"submit", work_.GptJob(), "--set", "train.steps=100000000", "--set",
                                                   "model.gpt={layers: 2 width: 128 heads: 2 context: 64}"},
                                                  OnMesh("dp: 2", 2)),
                                             At()));
    ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
    AwaitDiagnosis("acts ended while it was watched|the slowest: ");
    for (const Process& process : DescendantsOf(servers_.back()->pid())) {
      if (absl::StrContains(process.command, "--process=1 ")) worker_ = process;
    }
    ASSERT_GT(worker_.pid, 0);
  }
  void TearDown() override { worker_.Close(); }

  std::vector<std::string> At() const { return {"--scheduler", scheduler_}; }
  Outcome Diagnose(const std::string& job = "1") const { return work_.Run(Join({"jobs", "diagnose", job}, At())); }
  // Asks until the answer has something that matches.
  std::string AwaitDiagnosis(const std::string& wanted) const {
    const absl::Time deadline = absl::Now() + kLimit;
    while (true) {
      const Outcome asked = Diagnose();
      if (::testing::Matches(ContainsRegex(wanted))(asked.out)) return asked.out;
      if (absl::Now() < deadline) continue;
      ADD_FAILURE() << "expected: " << wanted << "\nlast answer: " << asked.out << asked.err;
      return asked.out;
    }
  }

  const Workspace work_;
  std::string scheduler_;
  std::vector<std::unique_ptr<RunningCommand>> servers_;
  Process worker_;  // of process 1
};

TEST_F(DiagnoseTest, WhatEachRankDoesIsToldAndTheJobGoesOn) {
  const std::string text =
      AwaitDiagnosis("\nrank 0 \\(cpu:0, process 0\\): queue .*\nrank 1 \\(cpu:1, process 1\\): queue ");
  EXPECT_THAT(text, ContainsRegex("acts ended while it was watched|the slowest: "));
  EXPECT_THAT(work_.Run(Join({"jobs"}, At())).out, HasSubstr("RUNNING"));
}

// Runs a third of the time.
TEST_F(DiagnoseTest, ARankThatIsSlowedIsNamed) {
  std::atomic<bool> over{false};
  std::thread slowing([&] {
    while (!over) {
      worker_.Kill(SIGSTOP);
      absl::SleepFor(absl::Milliseconds(20));
      worker_.Kill(SIGCONT);
      absl::SleepFor(absl::Milliseconds(10));
    }
  });
  AwaitDiagnosis(
      "^the slowest: rank 1 \\(cpu:1, process 1\\) computes for [0-9]+% of the time, the 1 other for at most");
  over = true;
  slowing.join();
}

// It is killed after 2 s, and with it the job ends: whenever one asks, one learns who it was.
TEST_F(DiagnoseTest, AFrozenProcessIsNamedWheneverOneAsks) {
  worker_.Kill(SIGSTOP);
  const absl::Time deadline = absl::Now() + kLimit;
  int answers = 0;
  while (true) {
    const Outcome asked = Diagnose();
    if (asked.exit_code != 0) {  // the job has ended
      EXPECT_THAT(asked.err, HasSubstr("job 1 does not run: FAILED: worker 1"));
      EXPECT_THAT(asked.err, HasSubstr(absl::StrCat("(pid ", worker_.pid, ")")));
      EXPECT_THAT(asked.err, HasSubstr("it is frozen, and was killed"));
      break;
    }
    ++answers;
    EXPECT_THAT(asked.out,
                HasSubstr(absl::StrCat("process 1 (pid ", worker_.pid, " on daemon 'right') does not answer")));
    EXPECT_THAT(asked.out, HasSubstr("rank 0 (cpu:0, process 0): "));
    ASSERT_LT(absl::Now(), deadline);
  }
  std::cout << answers << " answers while it was frozen\n";
}

TEST_F(DiagnoseTest, JobsThatDoNotRunAreRefused) {
  const Outcome unknown = Diagnose("7");
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_EQ(unknown.err, absl::StrCat("oneflow: scheduler '", scheduler_, "': there is no job 7\n"));
  EXPECT_EQ(work_.Run(Join({"cancel", "1"}, At())).exit_code, 0);
  const Outcome ended = Diagnose();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("job 1 does not run: CANCELLED"));
}

}  // namespace
}  // namespace oneflow::e2e
