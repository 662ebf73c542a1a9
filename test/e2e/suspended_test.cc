// Processes that are stopped and go on, as by a batch system's suspend, a frozen container or a virtual machine that is
// moved. Stopped all together, a job goes on, however long it was; one alone may be silent for as long as the limit
// says. Nothing here promises a time: that stops are longer, or shorter, than a limit is all that counts.
//
// Stops of 1 to 30 s, of all together and of each process alone, take a quarter of an hour, and are left out unless
//
//   ONEFLOW_SUSPEND=1 e2e_test --gtest_filter=SuspendedTest.*
#include <signal.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

// Who may be stopped: parts of the commands of a job's processes; the empty one is `oneflow run` itself.
const char* const kEach[] = {"", " scheduler ", "--name=d0 ", "--name=d1 ", "--process=0 ", "--process=1 "};

// A job of two processes that trains until it is told to end.
class SuspendedTest : public ::testing::Test {
 protected:
  void Begin(const std::vector<std::string>& options = {}) {
    run_ = work_.Start(Join(
        Join({"run", work_.GptJob(), "--metrics", work_.Path("metrics"), "--set", "train.steps=100000000", "--set",
              "data.least_read_ms=5", "--set", absl::StrCat("checkpoint={path: '", work_.Path("checkpoints"), "'}")},
             options),
        OnMesh("dp: 2", 2)));
    ASSERT_TRUE(metrics_.AwaitSteps(3)) << run_->Errors();
    processes_ = DescendantsOf(run_->pid());
    ASSERT_THAT(processes_, SizeIs(5)) << "scheduler, two daemons, two workers";
  }
  void TearDown() override {
    for (Process& process : processes_) process.Close();
  }

  void SignalAll(int signal) {
    run_->Signal(signal);
    for (const Process& process : processes_) process.Kill(signal);
  }
  void Signal(const std::string& who, int signal) {
    if (who.empty()) return run_->Signal(signal);
    for (const Process& process : processes_) {
      if (absl::StrContains(process.command, who)) return process.Kill(signal);
    }
    FAIL() << "there is no process '" << who << "'";
  }
  void StopAll(absl::Duration pause) {
    SignalAll(SIGSTOP);
    absl::SleepFor(pause);
    SignalAll(SIGCONT);
    ExpectGoesOn();
  }
  void Stop(const std::string& who, absl::Duration pause) {
    Signal(who, SIGSTOP);
    absl::SleepFor(pause);
    Signal(who, SIGCONT);
    ExpectGoesOn();
  }
  // Longer than anyone has who may be dead.
  void ExpectGoesOn() { ASSERT_TRUE(metrics_.AwaitSteps(metrics_.num_steps() + 600)) << run_->Errors(); }
  void End() {
    run_->Signal(SIGTERM);
    while (metrics_.AwaitSteps(metrics_.num_steps() + 1, absl::Seconds(3))) continue;  // a full pipe would hold it up
    const Outcome ended = run_->Wait();
    EXPECT_EQ(ended.exit_code, 130) << ended.err;
    EXPECT_EQ(ended.err, "\nsaving a checkpoint, then ending job 1\noneflow: the job was cancelled\n");
    EXPECT_THAT(work_.Leftovers(), IsEmpty());
  }

  const Workspace work_;
  MetricsPipe metrics_{work_.Path("metrics")};
  std::unique_ptr<RunningCommand> run_;
  std::vector<Process> processes_;
};

TEST_F(SuspendedTest, AJobThatIsStoppedAsAWholeGoesOn) {
  Begin();
  StopAll(absl::Seconds(3.5));  // more than a daemon or a worker may be silent
  StopAll(absl::Seconds(1.2));
  End();
}

TEST_F(SuspendedTest, EachProcessMayBeSilentForAMoment) {
  Begin();
  for (const char* const who : kEach) Stop(who, absl::Seconds(0.8));
  End();
}

TEST_F(SuspendedTest, WhoWaitsForOthersMayBeStoppedForLong) {
  Begin();
  for (const char* const who : {"", " scheduler "}) Stop(who, absl::Seconds(3.5));
  End();
}

TEST_F(SuspendedTest, ALongerLimitCanBeSet) {
  Begin({"--lost-after=60"});
  for (const char* const who : {"--name=d1 ", "--process=1 "}) Stop(who, absl::Seconds(3.5));
  End();
}

TEST_F(SuspendedTest, ForUpToHalfAMinute) {
  if (std::getenv("ONEFLOW_SUSPEND") == nullptr) GTEST_SKIP() << "takes a quarter of an hour";
  Begin({"--lost-after=60"});
  for (const int seconds : {1, 2, 3, 5, 8, 13, 20, 30}) {
    SCOPED_TRACE(seconds);
    StopAll(absl::Seconds(seconds));
    for (const char* const who : kEach) {
      SCOPED_TRACE(who);
      Stop(who, absl::Seconds(seconds));
      if (HasFatalFailure()) return;
    }
  }
  End();
}

// While it is only being made.
TEST_F(SuspendedTest, AlsoWhileItStarts) {
  if (std::getenv("ONEFLOW_SUSPEND") == nullptr) GTEST_SKIP() << "takes minutes";
  for (int ms = 100; ms <= 1500; ms += 200) {
    SCOPED_TRACE(ms);
    run_ = work_.Start(Join({"run", work_.GptJob()}, OnMesh("dp: 2", 2)));
    absl::SleepFor(absl::Milliseconds(ms));
    std::vector<Process> started = DescendantsOf(run_->pid());
    run_->Signal(SIGSTOP);
    for (const Process& process : started) process.Kill(SIGSTOP);
    absl::SleepFor(absl::Seconds(15));
    run_->Signal(SIGCONT);
    for (Process& process : started) process.Kill(SIGCONT), process.Close();
    const Outcome ended = run_->Wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
  }
}

}  // namespace
}  // namespace oneflow::e2e
