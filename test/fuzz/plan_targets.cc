#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "actor/program_check.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/plan_check.h"
#include "compiler/lower/plan_text.h"
#include "compiler/lower/program.h"
#include "compiler/lower/program_text.h"
#include "glog/logging.h"
#include "google/protobuf/arena.h"
#include "test/fuzz/small_jobs.h"
#include "test/fuzz/target.h"

namespace oneflow::testing {
namespace {

int ProcessesOf(const pb::Program& program) {
  int processes = 1;
  for (const pb::Rank& rank : program.ranks()) processes = std::max(processes, rank.process() + 1);
  return processes;
}

// What a plan's proof leaves to the worker (compiler/lower/plan_check.h).
bool IsNotProved(absl::string_view message) {
  for (const char* const part : {": init '", " attribute '", "a fetch has", "cannot read private memory"}) {
    if (absl::StrContains(message, part)) return true;
  }
  return false;
}

// What is proved of a plan is true of the program that is made of it.
void RunPlan(absl::string_view input) {
  google::protobuf::Arena arena;
  pb::PlanSet& set = *google::protobuf::Arena::CreateMessage<pb::PlanSet>(&arena);
  if (!set.ParseFromString(std::string(input))) return;
  const auto proofs = CheckPlanSet(set);
  const absl::StatusOr<pb::Program> program = ProgramOf(set, std::nullopt, "");
  PlanText(set).status().IgnoreError();
  if (!program.ok()) return;
  const absl::Status runs = CheckProgram(*program, ProcessesOf(*program));
  if (runs.ok()) ProgramText(*program);
  if (proofs.ok() && !IsNotProved(runs.message())) CHECK(runs.ok()) << runs;
}

void RunProgram(absl::string_view input) {
  google::protobuf::Arena arena;
  pb::Program& program = *google::protobuf::Arena::CreateMessage<pb::Program>(&arena);
  if (!program.ParseFromString(std::string(input))) return;
  if (!CheckProgram(program, /*num_processes=*/2).ok()) return;
  ProgramText(program);
}

}  // namespace

void AddPlanTargets(std::vector<FuzzTarget>& targets) {
  FuzzTarget plan{.name = "plan", .message = std::make_shared<pb::PlanSet>(), .run = RunPlan};
  FuzzTarget program{.name = "program", .message = std::make_shared<pb::Program>(), .run = RunProgram};
  for (const SmallJob& job : SmallJobs()) {
    plan.seeds.push_back(*SerializePlan(job.plan));
    for (const std::optional<int> process : {std::optional<int>(), std::optional<int>(0)}) {
      const absl::StatusOr<pb::Program> of = ProgramOf(job.plan, process, "");
      CHECK(of.ok()) << of.status();
      program.seeds.push_back(of->SerializeAsString());
    }
  }
  targets.push_back(std::move(plan));
  targets.push_back(std::move(program));
}

}  // namespace oneflow::testing
