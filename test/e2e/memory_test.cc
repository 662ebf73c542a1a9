// Memory: what the plan says is what is held, and it does not grow while steps go by.
#include <signal.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/zones.h"
#include "proto/plan.pb.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/status_matchers.h"
#include "tools/control/local/run_in_place.h"
#include "tools/job/job.h"

namespace oneflow::e2e {
namespace {

constexpr int kWarm = 500, kSteps = 2000;
// For what allocators and gRPC have not touched before; 130 bytes a step.
constexpr int64_t kSlack = 256 << 10;
// What the scheduler's store keeps of the pages that it writes (2 MB in the end): a step's three values, some 60 bytes
// each. As objects they would take more than twice as much.
constexpr int64_t kStoredPerStep = 300;

bool IsA(const Process& process, const std::string& role) {
  return absl::StrContains(process.command, "oneflow " + role + " ");
}

// The processes of a run of two workers: the command itself and all it started.
std::vector<Process> ProcessesOf(const RunningCommand& run) {
  std::vector<Process> processes = DescendantsOf(run.pid());
  for (const auto& [role, number] : {std::pair("scheduler", 1), {"daemon", 2}, {"worker", 2}}) {
    EXPECT_EQ(
        std::count_if(processes.begin(), processes.end(), [&](const Process& process) { return IsA(process, role); }),
        number)
        << role;
  }
  processes.push_back({.pid = run.pid(), .command = "oneflow run "});
  return processes;
}

TEST(MemoryTest, NoProcessOfALongRunGrows) {
  const Workspace work;
  MetricsPipe metrics(work.Path("metrics"));
  const std::unique_ptr<RunningCommand> run = work.Start(Join(
      {"run", work.GptJob(), "--set", "train.steps=100000000", "--metrics", work.Path("metrics")}, OnMesh("dp: 2", 2)));
  ASSERT_TRUE(metrics.AwaitSteps(kWarm)) << run->Errors();
  std::vector<Process> processes = ProcessesOf(*run);
  std::vector<int64_t> before;
  for (const Process& process : processes) before.push_back(process.ResidentBytes());
  ASSERT_TRUE(metrics.AwaitSteps(kWarm + kSteps)) << run->Errors();
  for (size_t i = 0; i < processes.size(); ++i) {
    const int64_t may_grow = kSlack + (IsA(processes[i], "scheduler") ? kStoredPerStep * kSteps : 0);
    EXPECT_GT(before[i], 0);
    EXPECT_LE(processes[i].ResidentBytes(), before[i] + may_grow)
        << processes[i].command << " held " << before[i] << " bytes";
    processes[i].Close();
  }
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
  for (const pb::RankClass& of : plan.classes()) planned += of.ranks_size() * BytesOfZones(of);
  ASSERT_OK_AND_ASSIGN(const EngineStats stats, RunInPlace(job.spec, plan, nullptr));
  EXPECT_GT(planned, 0);
  EXPECT_EQ(stats.register_bytes, planned);
}

}  // namespace
}  // namespace oneflow::e2e
