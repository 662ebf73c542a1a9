#include "tools/study/calibration/kernels.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/sim/simulator.h"
#include "oneflow_core/queues.h"
#include "tools/control/process/stop_signals.h"
#include "tools/control/process/temp_dir.h"
#include "tools/control/process/write_file.h"
#include "tools/job/outputs.h"
#include "tools/job/plugins.h"
#include "tools/study/calibration/act_replay.h"
#include "tools/study/calibration/message_probe.h"
#include "tools/study/sim/instruction_text.h"
#include "tools/study/sim/kernel_costs.h"
#include "tools/study/sim/predicted_costs.h"
#include "tools/study/sim/simulated_job.h"

namespace oneflow {
namespace {

constexpr int kWarmup = 3;      // steps
constexpr int kOrderSteps = 4;  // simulated, of which one says in which order acts come
constexpr double kNsPerUs = 1e3;
constexpr const char* kDistances[] = {"queues", "ranks", "processes"};

// Of every rank the acts of a step in which queues are full, as predicted costs let them begin.
absl::StatusOr<std::vector<ActOrder>> OrderOfActs(const pb::Program& program, int plan, const Topology& topology,
                                                  const OpRegistry& ops) {
  const PredictedCosts costs(program, plan, topology, ops);
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, plan, kOrderSteps, costs.Costs()));
  std::vector<ActOrder> order(program.ranks_size());
  for (const TracedAct& act : simulation.trace.acts) {
    if (act.step == kOrderSteps / 2) order[simulation.trace.ActorOf(act).rank()].push_back(act.actor);
  }
  return order;
}

// The ranks of the first host that has any work.
std::vector<int> RanksOfAHost(const std::vector<ActOrder>& order, const Topology& topology) {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(order.size()); ++rank) {
    if (order[rank].empty()) continue;
    if (!ranks.empty() && topology.HostOf(rank) != topology.HostOf(ranks[0])) break;
    ranks.push_back(rank);
  }
  return ranks;
}

void AddKernels(const std::vector<TimedInstruction>& timed, const pb::Program& program, const pb::Plan& plan,
                pb::KernelCosts& costs) {
  std::map<std::string, std::vector<double>> seconds;
  for (const TimedInstruction& one : timed) {
    const pb::Actor& actor = plan.actors(one.actor);
    seconds[InstructionText(program, plan, actor, actor.instructions(one.index))].push_back(one.seconds);
  }
  for (const auto& [text, all] : seconds) {
    pb::KernelCost& kernel = *costs.add_kernels();
    double sum = 0;
    for (const double s : all) sum += s;
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    kernel.set_instruction(text);
    kernel.set_us(1e6 * sum / static_cast<double>(all.size()));
    kernel.set_least_us(1e6 * *least);
    kernel.set_most_us(1e6 * *most);
    kernel.set_places(static_cast<int>(all.size()));
  }
}

// Ten percentiles, in units of `unit`.
void AddPercentiles(std::vector<double> values, double unit, google::protobuf::RepeatedField<double>* out) {
  std::sort(values.begin(), values.end());
  for (int p = 5; p < 100 && !values.empty(); p += 10) out->Add(values[values.size() * p / 100] / unit);
}

void AddMessages(const MeasuredCosts::AroundActs& around, pb::KernelCosts& costs) {
  for (int d = 0; d < 3; ++d) {
    if (around.message_ns[d].empty()) continue;
    pb::MessageCost& message = *costs.add_messages();
    message.set_between(kDistances[d]);
    AddPercentiles(around.message_ns[d], kNsPerUs, message.mutable_us());
  }
  for (const QueueKind& kind : kQueues) {
    const int q = kind.queue;
    if (around.wake_ns[q].empty() && around.pause_ns[q].empty()) continue;
    pb::QueueCost& queue = *costs.add_queues();
    queue.set_queue(kind.name);
    AddPercentiles(around.wake_ns[q], kNsPerUs, queue.mutable_wake_us());
    AddPercentiles(around.pause_ns[q], kNsPerUs, queue.mutable_pause_us());
  }
}

}  // namespace

absl::StatusOr<pb::KernelCosts> MeasureKernels(const Job& job, const pb::Program& program, int plan, int steps,
                                               const std::string& dir, const OpRegistry& ops,
                                               const std::atomic<bool>& stop) {
  OF_ASSIGN_OR_RETURN(const Topology topology, TopologyOf(job.options));
  OF_ASSIGN_OR_RETURN(const std::vector<ActOrder> order, OrderOfActs(program, plan, topology, ops));
  pb::KernelCosts costs;
  costs.set_version(kKernelCostsVersion);
  costs.set_device(job.spec.device());
  costs.set_threads(ThreadsOfARank(job.spec));
  ReplayOptions options{
      .ranks = RanksOfAHost(order, topology), .threads = costs.threads(), .warmup = kWarmup, .steps = steps};
  costs.set_ranks_at_once(static_cast<int>(options.ranks.size()));
  OF_ASSIGN_OR_RETURN(const Replay replay, ReplayActs(program, plan, order, ops, options));
  AddKernels(replay.instructions, program, program.plans(plan), costs);
  AddPercentiles(replay.step_factors, /*unit=*/1, costs.mutable_step_factors());
  OF_ASSIGN_OR_RETURN(const MeasuredCosts::AroundActs around, ProbeMessages(job.spec, dir, ops, stop));
  AddMessages(around, costs);
  return costs;
}

absl::Status BenchKernelsCommand(const BenchKernelsArguments& arguments) {
  std::atomic<bool> stop{false};
  const StopSignals signals([&](int) { stop = true; });
  if (!arguments.output.empty())
    OF_RETURN_IF_ERROR_AT(CheckWritable(arguments.output, /*may_be_stream=*/true), "--output");
  OF_ASSIGN_OR_RETURN(SourcedConfig config, LoadConfig(arguments.config, arguments.sets));
  OF_ASSIGN_OR_RETURN(const OpRegistry ops, OpsOf(config));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, ops));
  OF_ASSIGN_OR_RETURN(const int plan, FindPlan(program, arguments.plan));
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<TempDir> dir, TempDir::Make("oneflow-kernels"));
  OF_ASSIGN_OR_RETURN(const pb::KernelCosts costs,
                      MeasureKernels(job, program, plan, arguments.steps, dir->path(), ops, stop));
  const std::string text = KernelCostsText(costs);
  if (arguments.output.empty()) {
    std::cout << text;
    return absl::OkStatus();
  }
  OF_RETURN_IF_ERROR(WriteFile("--output", arguments.output, text));
  std::cout << "wrote '" << arguments.output << "': " << costs.kernels_size() << " instructions, "
            << costs.ranks_at_once() << " ranks at once; `oneflow plan simulate --kernels` reads it\n";
  return absl::OkStatus();
}

}  // namespace oneflow
