// Ctrl-C: the job is cancelled, the command says so, and nothing is left.
#include <signal.h>

#include "gmock/gmock.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"

namespace oneflow::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

INSTANTIATE_TEST_SUITE_P(Signals, InterruptTest, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& info) { return std::string(info.param == SIGINT ? "SIGINT" : "SIGTERM"); });

TEST(RunTest, AFinishedRunLeavesNothingBehindEither) {
  const Workspace work;
  const Outcome ended = work.Run(Join({"run", work.GptJob()}, OnMesh("dp: 2", 2)));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(work.Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace oneflow::e2e
