// Ctrl-C and all else that ends or saves a job from outside: the command says what it does, and nothing is left.
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "actor/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/names.h"
#include "tools/control/process/child.h"

namespace oneflow::e2e {
namespace {

class InterruptTest : public ::testing::TestWithParam<int> {};

TEST_P(InterruptTest, LeavesNothingBehind) {
  const Workspace work;
  MetricsPipe metrics(work.Path("metrics"));
  const std::unique_ptr<RunningCommand> run =
      work.Start(Join({"run", work.GptJob(), "--set", "train.steps=100000000", "--metrics", work.Path("metrics")},
                      OnMesh("dp: 2 tp: 2", 2)));
  ASSERT_TRUE(metrics.AwaitSteps(3)) << run->Errors();
  std::vector<Process> processes = DescendantsOf(run->pid());
  EXPECT_THAT(processes, SizeIs(5)) << "scheduler, two daemons, two workers";
  EXPECT_THAT(work.Leftovers(), SizeIs(1)) << "the directory of the embedded cluster";

  run->Signal(GetParam());
  const Outcome ended = run->Wait(absl::Seconds(20));
  EXPECT_EQ(ended.exit_code, 130);
  EXPECT_EQ(ended.signal, 0);
  EXPECT_EQ(ended.err, "\ncancelling job 1\noneflow: the job was cancelled\n");
  for (Process& process : processes) {
    EXPECT_TRUE(process.GoneWithin(absl::ZeroDuration())) << process.command;
    process.Close();
  }
  EXPECT_THAT(work.Leftovers(), IsEmpty());
  EXPECT_THAT(NamedSharedMemory(), IsEmpty()) << "registers are in memory without a name";
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptTest, ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) { return absl::StrCat("SIG", sigabbrev_np(info.param)); });

// A job of two processes with checkpoints that trains until somebody ends it.
class SavingTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments() const {
    return Join({"run", work_.GptJob(), "--metrics", work_.Path("metrics"), "--set", "train.steps=100000000", "--set",
                 absl::StrCat("checkpoint={path: '", work_.Path("checkpoints"), "'}")},
                OnMesh("dp: 2", 2));
  }
  void Begin() {
    run_ = work_.Start(Arguments());
    ASSERT_TRUE(AwaitLines(work_.Path("metrics"), 3)) << run_->Errors();
    processes_ = DescendantsOf(run_->pid());
  }
  void TearDown() override {
    for (Process& process : processes_) process.Close();
  }
  // Whole ones: a checkpoint gets its name when it is written.
  int64_t NumCheckpoints() const {
    const absl::StatusOr<std::vector<int64_t>> steps = ListCheckpoints(work_.Path("checkpoints"));
    return steps.ok() ? static_cast<int64_t>(steps->size()) : 0;
  }
  int NumLines() const { return static_cast<int>(LinesIn(work_.Path("metrics")).size()); }
  bool AwaitCheckpoints(int64_t number) const {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (NumCheckpoints() < number && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
    return NumCheckpoints() >= number;
  }

  const Workspace work_;
  std::unique_ptr<RunningCommand> run_;
  std::vector<Process> processes_;
};

// As batch systems send it to every process of a job some time ahead of its end.
TEST_F(SavingTest, SavesAndGoesOnWhenAskedTo) {
  Begin();
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    const int64_t before = NumCheckpoints();
    run_->Signal(signal);
    for (const Process& process : processes_) process.Kill(signal);
    ASSERT_TRUE(AwaitCheckpoints(before + 1)) << run_->Errors();
    ASSERT_TRUE(AwaitLines(work_.Path("metrics"), NumLines() + 20)) << "it goes on";
  }
  run_->Signal(SIGTERM);
  for (const Process& process : processes_) process.Kill(SIGTERM);  // which is not theirs to hear
  const Outcome ended = run_->Wait();
  EXPECT_EQ(ended.exit_code, 130);
  EXPECT_EQ(ended.err,
            "saving a checkpoint of job 1, which goes on\nsaving a checkpoint of job 1, which goes on\n\n"
            "saving a checkpoint, then ending job 1\noneflow: the job was cancelled\n");
  EXPECT_EQ(NumCheckpoints(), 3);
  EXPECT_THAT(work_.Leftovers(), IsEmpty());
}

TEST_F(SavingTest, EndsCleanlyWhenNobodyReadsWhatItPrints) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ChildOptions options;
  options.executable = "/bin/sh";
  // Its output is our pipe.
  options.arguments = Join({"sh", "-c", R"(exec "$@" >&3 2>"$E2E_ERR" 3>&-)", "sh", Command()}, Arguments());
  options.environment = {absl::StrCat("E2E_ERR=", work_.Path("err")), absl::StrCat("TMPDIR=", work_.Path("tmp"))};
  options.passed_fd = ends[1];
  ChildExit exit;
  absl::StatusOr<std::unique_ptr<ChildProcess>> run =
      ChildProcess::Start(options, [&exit](ChildExit ended) { exit = ended; });
  ASSERT_TRUE(run.ok());
  close(ends[1]);
  EXPECT_TRUE(AwaitLines(work_.Path("metrics"), 3)) << ReadFile(work_.Path("err"));
  close(ends[0]);  // as `| head` does
  EXPECT_TRUE((*run)->WaitForExit(absl::Seconds(60)));
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(exit.exit_code, 130);
  EXPECT_EQ(NumCheckpoints(), 1);
  EXPECT_THAT(ReadFile(work_.Path("err")), HasSubstr("saving a checkpoint, then ending job 1"));
  EXPECT_THAT(work_.Leftovers(), IsEmpty());
}

TEST_F(SavingTest, TheNextStartSweepsWhatAKilledOneLeft) {
  Begin();
  run_->Signal(SIGKILL);
  run_->Wait();
  for (const Process& process : processes_) EXPECT_TRUE(process.GoneWithin(absl::Seconds(10))) << process.command;
  EXPECT_THAT(work_.Leftovers(), SizeIs(1)) << "nobody was there to remove it";
  EXPECT_THAT(NamedSharedMemory(), IsEmpty());
  EXPECT_EQ(work_.Run({"run", work_.GptJob()}).exit_code, 0);
  EXPECT_THAT(work_.Leftovers(), IsEmpty());
}

TEST(RunTest, WithoutCheckpointsNothingCanBeSavedAndItGoesOn) {
  const Workspace work;
  MetricsPipe metrics(work.Path("metrics"));
  const auto run =
      work.Start({"run", work.GptJob(), "--set", "train.steps=100000000", "--metrics", work.Path("metrics")});
  ASSERT_TRUE(metrics.AwaitSteps(3)) << run->Errors();
  run->Signal(SIGUSR1);
  ASSERT_TRUE(AwaitLines(work.Path("err.1"), 1));
  EXPECT_THAT(run->Errors(), HasSubstr("nothing is saved: "));
  EXPECT_THAT(run->Errors(), HasSubstr("job 1 has no checkpoint.path"));
  EXPECT_TRUE(metrics.AwaitSteps(metrics.num_steps() + 20));
  run->Signal(SIGINT);
  EXPECT_EQ(run->Wait().exit_code, 130);
}

TEST(RunTest, AFinishedRunLeavesNothingBehindEither) {
  const Workspace work;
  const Outcome ended = work.Run(Join({"run", work.GptJob()}, OnMesh("dp: 2", 2)));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(work.Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace oneflow::e2e
