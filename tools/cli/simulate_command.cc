// `oneflow plan simulate`: the plan of a job on a virtual clock.
#include <iostream>
#include <optional>

#include "absl/strings/str_format.h"
#include "actor/sim/simulator.h"
#include "actor/trace/chrome_trace.h"
#include "compiler/lower/plan_memory.h"
#include "compiler/lower/program.h"
#include "oneflow_core/ops/ops.h"
#include "tools/cli/commands.h"
#include "tools/sim/kernel_costs.h"
#include "tools/sim/knobs.h"
#include "tools/sim/measured_costs.h"
#include "tools/sim/predicted_costs.h"
#include "tools/sim/simulated_job.h"
#include "tools/trace/step_division.h"

namespace oneflow {
namespace {

constexpr size_t kEdges = 6;           // of the critical path, that are told
constexpr int64_t kVaryingSteps = 33;  // where costs are drawn anew in every step, and a median is told
constexpr int64_t kSteps = 8;  // until queues are filled, and some more; with costs that are the same in every step

absl::StatusOr<MeasuredCosts> ReadCosts(const std::string& file, const pb::Program& program, int plan) {
  OF_ASSIGN_OR_RETURN(const Trace trace, ReadChromeTrace(file));
  const auto measure = [&]() -> absl::StatusOr<MeasuredCosts> {
    OF_ASSIGN_OR_RETURN(const TraceSteps steps, FindSteps(trace, program.plans(plan).name()));
    return MeasuredCosts::Of(trace, steps, program);
  };
  OF_ASSIGN_OR_RETURN_AT(MeasuredCosts costs, measure(), absl::StrCat("--costs '", file, "'"));
  return costs;
}

// Checks that what was measured is of such devices as the job has.
absl::StatusOr<pb::KernelCosts> ReadKernels(const std::string& file, const pb::JobSpec& spec) {
  OF_ASSIGN_OR_RETURN(pb::KernelCosts costs, ReadKernelCosts(file));
  if (costs.device() == spec.device() && costs.threads() == ThreadsOfARank(spec)) return costs;
  return absl::InvalidArgumentError(absl::StrCat("--kernels '", file, "': was measured on ", costs.device(), " with ",
                                                 costs.threads(), " threads of a rank, the job is for ", spec.device(),
                                                 " with ", ThreadsOfARank(spec)));
}

void PrintStep(const Trace& trace, const TraceSummary& summary) {
  const pb::Program& program = trace.head.program();
  const int critical = CriticalRank(trace, summary);
  std::cout << absl::StrFormat("plan '%s' on %d ranks: %.3f ms a step\n\n", program.plans(summary.steps.plan).name(),
                               program.ranks_size(), 1e3 * summary.steps.median_seconds());
  std::cout << absl::StrFormat("rank %d, which has most of the critical path       ms/step\n", critical);
  for (const StepDivision& division : DivideSteps(trace, summary.steps)) {
    if (division.rank == critical) std::cout << DivisionText(division, summary.steps);
  }
  std::vector<std::pair<int64_t, TraceEdge>> edges;
  for (const auto& [edge, time] : summary.path.edges) edges.push_back({-time.total, edge});
  std::sort(edges.begin(), edges.end());
  std::cout << "\ncritical path, by edge                            ms/step\n";
  for (size_t i = 0; i < std::min(kEdges, edges.size()); ++i) {
    const double ns = -static_cast<double>(edges[i].first);
    std::cout << absl::StrFormat("  %12.3f %6.1f%%  %s\n", 1e-6 * ns / static_cast<double>(summary.steps.num_steps()),
                                 100 * ns / static_cast<double>(summary.path.total),
                                 EdgeText(trace, summary.steps.plan, edges[i].second));
  }
}

void PrintKnobs(const std::vector<Knob>& knobs, double base_seconds) {
  std::cout << "\nwhat would change it                             ms/step\n";
  for (const Knob& knob : knobs) {
    if (knob.step_seconds < 0) {
      std::cout << absl::StrFormat("  %12s %7s  %s\n", "stops", "", knob.what);
      continue;
    }
    std::cout << absl::StrFormat("  %12.3f %+6.1f%%  %s\n", 1e3 * knob.step_seconds,
                                 100 * (knob.step_seconds / base_seconds - 1), knob.what);
  }
}

absl::Status SimulateAndPrint(const SimulateArguments& arguments, const pb::Program& program, int plan,
                              const SimulatedCosts& costs, int64_t usual_steps) {
  const int64_t num_steps = arguments.steps > 0 ? arguments.steps : usual_steps;
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, plan, num_steps, costs));
  OF_ASSIGN_OR_RETURN(const TraceSummary summary, Summarize(simulation.trace, program.plans(plan).name()));
  PrintStep(simulation.trace, summary);
  OF_ASSIGN_OR_RETURN(const std::vector<Knob> knobs, TurnKnobs(program, num_steps, costs, summary));
  PrintKnobs(knobs, summary.steps.median_seconds());
  if (arguments.trace.empty()) return absl::OkStatus();
  OF_RETURN_IF_ERROR(WriteChromeTrace(simulation.trace, arguments.trace));
  std::cout << "\nwrote " << arguments.trace << "\n";
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanSimulateCommand(const SimulateArguments& arguments) {
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.job.Load());
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet set, CompileJob(job, ops));
  OF_ASSIGN_OR_RETURN(const pb::Program program, ProgramOf(set, std::nullopt, job.spec.plan_hash()));
  OF_ASSIGN_OR_RETURN(const int plan, FindPlan(program, arguments.plan));
  if (arguments.costs.empty()) {
    OF_ASSIGN_OR_RETURN(const Topology topology, TopologyOf(job.options));
    const PredictedCosts predicted(program, plan, topology, ops);
    if (arguments.kernels.empty()) {
      OF_RETURN_IF_ERROR(SimulateAndPrint(arguments, program, plan, predicted.Costs(), kSteps));
    } else {
      OF_ASSIGN_OR_RETURN(const pb::KernelCosts kernels, ReadKernels(arguments.kernels, job.spec));
      const KernelCostsOptions options{.or_roofline = arguments.or_roofline,
                                       .emulated_ns_per_byte = job.spec.emulated_ms_per_mb()};
      OF_ASSIGN_OR_RETURN_AT(const KernelCosts costs,
                             KernelCosts::Of(kernels, program, plan, topology, predicted, options),
                             absl::StrCat("--kernels '", arguments.kernels, "'"));
      std::cout << costs.num_instructions() - costs.num_predicted() << " of " << costs.num_instructions()
                << " instructions as measured, " << kernels.ranks_at_once() << " ranks at once\n";
      OF_RETURN_IF_ERROR(SimulateAndPrint(arguments, program, plan, costs.Costs(), kVaryingSteps));
    }
  } else {
    OF_ASSIGN_OR_RETURN(const MeasuredCosts costs, ReadCosts(arguments.costs, program, plan));
    OF_RETURN_IF_ERROR(SimulateAndPrint(arguments, program, plan, costs.Costs(), costs.num_steps() + 1));
  }
  std::cout << "\n" << PlanMemoryText(set);
  return absl::OkStatus();
}

}  // namespace oneflow
