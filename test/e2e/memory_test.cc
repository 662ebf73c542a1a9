// Memory: what the plan says is what is held, and it does not grow while steps go by.
#include <signal.h>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/status_matchers.h"
#include "tools/job/job.h"
#include "tools/local/run_in_place.h"

namespace oneflow::e2e {
namespace {

TEST(MemoryTest, ALongRunDoesNotGrow) {
  const Workspace work;
  MetricsPipe metrics(work.Path("metrics"));
  const std::unique_ptr<RunningCommand> run = work.Start(Join(
      {"run", work.GptJob(), "--set", "train.steps=100000000", "--metrics", work.Path("metrics")}, OnMesh("dp: 2", 2)));
  ASSERT_TRUE(metrics.AwaitSteps(100)) << run->Errors();
  std::vector<Process> processes = DescendantsOf(run->pid());
  std::vector<int64_t> before;
  for (const Process& process : processes) before.push_back(process.ResidentBytes());
  ASSERT_TRUE(metrics.AwaitSteps(600)) << run->Errors();
  int workers = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    const int64_t after = processes[i].ResidentBytes();
    if (absl::StrContains(processes[i].command, " worker ")) {
      ++workers;
      EXPECT_GT(before[i], 0);
      EXPECT_LE(after, before[i] + before[i] / 100) << processes[i].command << " held " << before[i] << " bytes";
    }
    processes[i].Close();
  }
  EXPECT_EQ(workers, 2);
  run->Signal(SIGINT);
  EXPECT_EQ(run->Wait().exit_code, 130);
}

TEST(MemoryTest, TheRuntimeHoldsWhatThePlanSays) {
  const Workspace work;
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(SourcedConfig config, LoadConfig(work.GptJob(), {"mesh={dp: 2 tp: 2}", "train.steps=3"}));
  ASSERT_OK_AND_ASSIGN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, CompileJob(job, ops));
  int64_t planned = 0;
  for (const pb::Rank& rank : plan.ranks()) planned += rank.private_bytes() + rank.shared_bytes();
  ASSERT_OK_AND_ASSIGN(const EngineStats stats, RunInPlace(job.spec, plan, nullptr));
  EXPECT_GT(planned, 0);
  EXPECT_EQ(stats.register_bytes, planned);
}

}  // namespace
}  // namespace oneflow::e2e
