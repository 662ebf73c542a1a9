// `oneflow plan simulate`: the plan of a job on a virtual clock.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "absl/strings/str_format.h"
#include "actor/sim/simulator.h"
#include "actor/trace/chrome_trace.h"
#include "compiler/local_training.h"
#include "compiler/lower/plan_memory.h"
#include "compiler/lower/program.h"
#include "compiler/points.h"
#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/cli/usage.h"
#include "tools/job/outputs.h"
#include "tools/job/plugins.h"
#include "tools/study/sim/folded_plan.h"
#include "tools/study/sim/injection.h"
#include "tools/study/sim/kernel_costs.h"
#include "tools/study/sim/knobs.h"
#include "tools/study/sim/measured_costs.h"
#include "tools/study/sim/predicted_costs.h"
#include "tools/study/sim/simulated_job.h"
#include "tools/study/trace/step_division.h"

namespace oneflow {
namespace {

struct SimulateArguments {
  JobArguments job;
  std::string costs;         // trace of a real run that says what things cost; empty: predicted from devices and links
  std::string kernels;       // what was measured of the job's instructions; empty: nothing
  bool or_roofline = false;  // what `kernels` lacks is predicted
  std::string trace;         // file for the simulated run; empty: none
  std::string plan;          // name; empty: the first
  int64_t steps = 0;         // 0: as many as the costs have, or enough
  bool all_ranks = false;    // play each, also those that do the same as others
  std::string cluster;       // file: other hosts than the job's, for what things cost; empty: the job's
  std::vector<std::string> slow, kill;  // what goes wrong (tools/study/sim/injection.h)
  double delay_ms = 0;
  uint64_t seed = 1;  // of the delays
};

constexpr size_t kEdges = 6;                     // of the critical path, that are told
constexpr int64_t kVaryingSteps = 33;            // where costs are drawn anew in every step, and a median is told
constexpr size_t kMostActsForKnobs = 1'000'000;  // of the base; each knob plays them once more

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

absl::Status PrintAndWrite(const SimulateArguments& arguments, const pb::Program& program, int plan,
                           const SimulatedCosts& costs, const Simulation& simulation) {
  OF_ASSIGN_OR_RETURN(const TraceSummary summary, Summarize(simulation.trace, program.plans(plan).name()));
  PrintStep(simulation.trace, summary);
  if (simulation.trace.acts.size() <= kMostActsForKnobs) {
    const auto num_steps = static_cast<int64_t>(simulation.step_ends_ns.size());
    OF_ASSIGN_OR_RETURN(const std::vector<Knob> knobs, TurnKnobs(program, num_steps, costs, summary));
    PrintKnobs(knobs, summary.steps.median_seconds());
  } else {
    std::cout << absl::StrFormat("\nwhat would change it is not tried for more than %d acts; these are %d\n",
                                 kMostActsForKnobs, simulation.trace.acts.size());
  }
  if (arguments.trace.empty()) return absl::OkStatus();
  OF_RETURN_IF_ERROR(CheckApart({{"--trace", arguments.trace}}, {{"the job config", arguments.job.config},
                                                                 {"--costs", arguments.costs},
                                                                 {"--kernels", arguments.kernels},
                                                                 {"--cluster", arguments.cluster}}));
  OF_RETURN_IF_ERROR(WriteChromeTrace(simulation.trace, arguments.trace));
  std::cout << "\nwrote " << arguments.trace << "\n";
  return absl::OkStatus();
}

// Of a step of a plan, in seconds.
absl::StatusOr<double> StepSeconds(const PartPrograms& programs, const pb::PlanSet& set, int plan,
                                   const RankCosts& costs, const std::string& plan_hash) {
  PricedRanks priced(set, programs, plan, costs);
  OF_ASSIGN_OR_RETURN(PlayedRanks ranks, FindPlayedRanks(priced, {}));
  OF_ASSIGN_OR_RETURN(const FoldedPlan folded, FoldedPlan::Make(priced, std::move(ranks), plan_hash));
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(folded.program(), 0, kUntilSteady, folded.Costs()));
  OF_ASSIGN_OR_RETURN(const TraceSummary summary, Summarize(simulation.trace, folded.program().plans(0).name()));
  return summary.steps.median_seconds();
}

// Where groups of ranks train by themselves: what their means cost, and how many steps hide one.
absl::Status PrintRounds(const Job& job, const PartPrograms& programs, const pb::PlanSet& set, int plan,
                         const RankCosts& costs, double step_seconds) {
  const pb::SyncRule* rule = nullptr;
  for (const pb::Phase& phase : job.spec.phases()) {
    if (phase.train().has_sync() && phase.train().plan() == set.plans(plan).name()) rule = &phase.train().sync();
  }
  if (rule == nullptr) return absl::OkStatus();
  double seconds[2] = {};  // of the mean, and of taking over what follows from it
  const char* const names[2] = {kOuterPlan, kAdoptPlan};
  for (int i = 0; i < 2; ++i) {
    OF_ASSIGN_OR_RETURN(const int other, FindPlan(set, names[i]));
    OF_ASSIGN_OR_RETURN(seconds[i], StepSeconds(programs, set, other, costs, job.spec.plan_hash()));
  }
  const auto tau = static_cast<double>(rule->every());
  const double round = tau * step_seconds;
  const double taken = rule->late() ? std::max(round, seconds[0]) + seconds[1] : round + seconds[0] + seconds[1];
  std::cout << absl::StrFormat(
      "\nrounds of %d steps: a mean takes %.3f ms, %s; a step takes %.3f ms with it\n", rule->every(), 1e3 * seconds[0],
      rule->late() ? absl::StrFormat("which %.0f steps or more hide", std::ceil(seconds[0] / step_seconds))
                   : "behind them",
      1e3 * taken / tau);
  return absl::OkStatus();
}

// Where gradients are taken at other points too (compiler/points.h): what those cost.
absl::Status PrintPoints(const Job& job, const PartPrograms& programs, const pb::PlanSet& set, int plan,
                         const RankCosts& costs, double step_seconds) {
  pb::PointRule rule;
  for (const pb::Phase& phase : job.spec.phases()) {
    if (phase.train().has_points() && phase.train().plan() == set.plans(plan).name()) rule = phase.train().points();
  }
  const auto seconds_of = [&](const char* name) -> absl::StatusOr<double> {
    OF_ASSIGN_OR_RETURN(const int other, FindPlan(set, name));
    return StepSeconds(programs, set, other, costs, job.spec.plan_hash());
  };
  double seconds = step_seconds;
  if (rule.half()) {
    OF_ASSIGN_OR_RETURN(const double half, seconds_of(kHalfPlan));
    std::cout << absl::StrFormat("\nbefore each step another gradient: %.3f ms\n", 1e3 * half);
    seconds += half;
  }
  if (rule.anchors()) {
    OF_ASSIGN_OR_RETURN(const double anchor, seconds_of(kAnchorPlan));
    std::cout << absl::StrFormat("\nbehind one step in %.4g a gradient for the anchor: %.3f ms\n",
                                 1 / rule.probability(), 1e3 * anchor);
    seconds += rule.probability() * anchor;
  }
  if (seconds > step_seconds) std::cout << absl::StrFormat("a step takes %.3f ms with that\n", 1e3 * seconds);
  return absl::OkStatus();
}

// Of ranks that do the same at the same times one is played, unless all are asked for or any may be late.
absl::Status SimulatePredicted(const SimulateArguments& arguments, const Job& job, const OpRegistry& ops,
                               const pb::PlanSet& set, int plan) {
  OF_ASSIGN_OR_RETURN(const PartPrograms programs, PartPrograms::Of(set));
  const int num_ranks = programs.reader().num_ranks();
  OF_ASSIGN_OR_RETURN(const Injection injection,
                      ParseInjection(arguments.slow, arguments.kill, arguments.delay_ms, arguments.seed, num_ranks));
  OF_ASSIGN_OR_RETURN(Topology topology,
                      arguments.cluster.empty() ? TopologyOf(job.options) : TopologyOfFile(arguments.cluster, job));
  RankCosts rank_costs = PredictedRankCosts(std::move(topology), ops);
  rank_costs.slow = injection.slow;
  PricedRanks priced(set, programs, plan, rank_costs);
  PlayedRanks ranks = PlayAll(num_ranks);
  if (!arguments.all_ranks && injection.delay_ns == 0) {
    OF_ASSIGN_OR_RETURN(ranks, FindPlayedRanks(priced, injection.Touched()));
  }
  OF_ASSIGN_OR_RETURN(const FoldedPlan folded, FoldedPlan::Make(priced, std::move(ranks), job.spec.plan_hash()));
  const SimulatedCosts costs = Injected(folded.Costs(), injection);
  if (!folded.plays_all()) {
    std::cout << absl::StrFormat("%d ranks are played, which stand for all %d\n", folded.ranks().played.size(),
                                 num_ranks);
  }
  const int64_t num_steps = arguments.steps == 0 && injection.delay_ns > 0 ? kVaryingSteps : arguments.steps;
  const Extent extent = num_steps > 0 ? Extent{.steps = num_steps} : kUntilSteady;
  const absl::StatusOr<Simulation> simulation = Simulate(folded.program(), 0, extent, costs);
  if (absl::IsFailedPrecondition(simulation.status()) && !injection.dies_ns.empty()) {
    std::cout << simulation.status().message() << "\n";  // that is what was asked for
    return absl::OkStatus();
  }
  OF_RETURN_IF_ERROR(simulation.status());
  OF_RETURN_IF_ERROR(PrintAndWrite(arguments, folded.program(), 0, costs, *simulation));
  OF_ASSIGN_OR_RETURN(const TraceSummary summary, Summarize(simulation->trace, folded.program().plans(0).name()));
  OF_RETURN_IF_ERROR(PrintRounds(job, programs, set, plan, rank_costs, summary.steps.median_seconds()));
  return PrintPoints(job, programs, set, plan, rank_costs, summary.steps.median_seconds());
}

// All ranks, by what instructions took.
absl::Status SimulateKernels(const SimulateArguments& arguments, const Job& job, const OpRegistry& ops,
                             const pb::PlanSet& set, int plan) {
  OF_ASSIGN_OR_RETURN(const pb::Program program, ProgramOf(set, std::nullopt, job.spec.plan_hash()));
  OF_ASSIGN_OR_RETURN(const Topology topology, TopologyOf(job.options));
  const PredictedCosts predicted(program, plan, topology, ops);
  OF_ASSIGN_OR_RETURN(const pb::KernelCosts kernels, ReadKernels(arguments.kernels, job.spec));
  const KernelCostsOptions options{.or_roofline = arguments.or_roofline,
                                   .emulated_ns_per_byte = job.spec.emulated_ms_per_mb()};
  OF_ASSIGN_OR_RETURN_AT(const KernelCosts costs, KernelCosts::Of(kernels, program, plan, topology, predicted, options),
                         absl::StrCat("--kernels '", arguments.kernels, "'"));
  std::cout << costs.num_instructions() - costs.num_predicted() << " of " << costs.num_instructions()
            << " instructions as measured, " << kernels.ranks_at_once() << " ranks at once\n";
  const int64_t num_steps = arguments.steps > 0 ? arguments.steps : kVaryingSteps;
  const SimulatedCosts simulated = costs.Costs();
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, plan, num_steps, simulated));
  return PrintAndWrite(arguments, program, plan, simulated, simulation);
}

absl::Status SimulateMeasured(const SimulateArguments& arguments, const Job& job, const pb::PlanSet& set, int plan) {
  OF_ASSIGN_OR_RETURN(const pb::Program program, ProgramOf(set, std::nullopt, job.spec.plan_hash()));
  OF_ASSIGN_OR_RETURN(const MeasuredCosts measured, ReadCosts(arguments.costs, program, plan));
  const int64_t num_steps = arguments.steps > 0 ? arguments.steps : measured.num_steps() + 1;
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, plan, num_steps, measured.Costs()));
  return PrintAndWrite(arguments, program, plan, measured.Costs(), simulation);
}

absl::Status SimulateJob(const SimulateArguments& arguments) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.job.Load());
  OF_ASSIGN_OR_RETURN(const OpRegistry ops, OpsOf(config));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet set, CompileJob(job, ops));
  OF_ASSIGN_OR_RETURN(const int plan, FindPlan(set, arguments.plan));
  if (arguments.costs.empty()) {
    OF_RETURN_IF_ERROR(arguments.kernels.empty() ? SimulatePredicted(arguments, job, ops, set, plan)
                                                 : SimulateKernels(arguments, job, ops, set, plan));
  } else {
    OF_RETURN_IF_ERROR(SimulateMeasured(arguments, job, set, plan));
  }
  std::cout << "\n" << PlanMemoryText(set);
  return absl::OkStatus();
}

}  // namespace

RunFunction DeclareSimulate(CLI::App& app, ParsedArguments& arguments) {
  SimulateArguments& simulate = arguments.New<SimulateArguments>();
  AddConfig(app, simulate.job);
  app.add_option("--costs", simulate.costs, "trace of a run of this very plan that says what everything costs");
  CLI::Option* const kernels =
      app.add_option("--kernels", simulate.kernels, "what `bench kernels` measured of the job's instructions")
          ->excludes("--costs");
  app.add_flag("--kernels-or-roofline", simulate.or_roofline, "predict what --kernels lacks, instead of an error")
      ->needs(kernels);
  app.add_option("--trace", simulate.trace, "write the simulated run to this file");
  app.add_option("--plan", simulate.plan, "simulate this plan; default: the first");
  app.add_option("--steps", simulate.steps,
                 "how many to simulate, of which all but the first count; default: as many as --costs has, else "
                 "until they repeat, 8 at most")
      ->check(CLI::Range(2, 100'000));
  app.add_flag("--all-ranks", simulate.all_ranks, "play every rank, not one of those that do the same");
  app.add_option("--cluster", simulate.cluster,
                 "by the prices of the hosts in this file: the text of a job's cluster {}");
  app.add_option("--slow", simulate.slow, "RANK=FACTOR: its acts take so many times as long")->allow_extra_args(false);
  app.add_option("--kill", simulate.kill, "RANK@MS: it dies then; says who waits for whom")->allow_extra_args(false);
  CLI::Option* const delay = app.add_option("--delay", simulate.delay_ms,
                                            "acts and messages take up to so many milliseconds longer, at random");
  app.add_option("--seed", simulate.seed, "of --delay")->capture_default_str()->check(WholeFrom(0))->needs(delay);
  for (const char* injected : {"--cluster", "--slow", "--kill", "--delay"}) {  // what was measured was measured so
    app.get_option(injected)->excludes("--costs")->excludes("--kernels");
  }
  return [&simulate] { return Report(SimulateJob(simulate)); };
}

}  // namespace oneflow
