#include "tools/bench/predicted_run.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/boxed_graph.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/variables.h"
#include "oneflow_core/models/gpt.h"
#include "tools/bench/expense.h"
#include "tools/job/job.h"
#include "tools/study/sim/folded_plan.h"
#include "tools/study/sim/simulated_job.h"
#include "tools/study/trace/summary.h"

namespace oneflow {
namespace {

constexpr int kDevicesOfHost = 8;
// Cards of a host and their rates. Selene: DGX A100, eight HDR cards of 200 Gbit/s for computing, of which 90% is
// reached (Calculon, SC'23, systems/a100_80g.json). Frontier: four Slingshot cards of 200 Gbit/s (OLCF user guide).
constexpr char kSeleneHosts[] = "device_kind: 'a100-sxm' nics { link: 'infiniband' count: 8 gbit_per_s: 180 }";
constexpr char kFrontierHosts[] = "device_kind: 'mi250x-die' nics { link: 'infiniband' count: 4 gbit_per_s: 200 }";
// Whether a run fits is another question than how long it takes.
constexpr int64_t kRoomyDevice = int64_t{1} << 45;

std::string ConfigOf(const PublishedRun& run, const std::string& text) {
  const int ranks = run.ranks(), hosts = (ranks + kDevicesOfHost - 1) / kDevicesOfHost;
  std::string config = absl::StrFormat(
      "name: 'predict' precision { compute: BF16 reduce: BF16 } data { text { path: '%s' } } mesh { pp: %d dp: %d tp: "
      "%d }\n"
      "cluster { device: 'cuda' processes: %d hosts { count: %d devices: %d device_memory_bytes: %d %s } }\n"
      "train { steps: 1 batch_size: %d micro_batches: %d optimizer { adamw {} clip_norm: 1 }\n"
      "  schedule { learning_rate: 1e-4 } }\n",
      text, run.pp, run.dp, run.tp, hosts, hosts, ranks / hosts, kRoomyDevice,
      run.machine == Supercomputer::kSelene ? kSeleneHosts : kFrontierHosts, run.batch, run.micro_batches());
  if (run.pp > 1 && run.chunks > 1)
    absl::StrAppend(&config, "pipeline { schedule: 'interleaved' chunks: ", run.chunks, " }\n");
  const char* const what = run.recomputed == Recomputed::kLayers      ? "layers"
                           : run.recomputed == Recomputed::kAttention ? "attention"
                                                                      : "none";
  absl::StrAppend(&config, "recompute { what: '", what, "' gathers: ", run.sequence_parallel ? "true" : "false",
                  " }\n");
  return config;
}

// As many layers to each chunk, chunks dealt out to stages round robin.
std::vector<int> StagesOf(const PublishedRun& run) {
  std::vector<int> stages;
  const int64_t chunks = run.pp * run.chunks;
  for (int64_t layer = 0; run.pp > 1 && layer < run.model.layers; ++layer)
    stages.push_back(static_cast<int>(layer * chunks / run.model.layers % run.pp));
  return stages;
}

// Whether ops are fused as this engine does it: else forward keeps for backward what the published systems kept. Which
// ops are one kernel there is for kernel_groups.h to say.
enum class Fusions : uint8_t { kTheirs, kOurs };

absl::StatusOr<Job> JobOf(const PublishedRun& run, const std::string& text, const OpRegistry& ops, Fusions fusions) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(ConfigOf(run, text), absl::StrCat("(", run.name, ")")));
  const GptConfig gpt{.vocabulary = kPublishedVocabulary,
                      .layers = run.model.layers,
                      .width = run.model.width,
                      .heads = run.model.heads,
                      .context = kPublishedContext,
                      .dropout = kPublishedDropout,
                      .kept_scores = DType::kBFloat16,
                      .stream = run.sequence_parallel ? Sbp::Split(1) : Sbp::Broadcast(),
                      .stages = StagesOf(run)};
  OF_ASSIGN_OR_RETURN(std::vector<Graph> program,
                      GptProgram(gpt, {.path = text}, {.train = run.micro * run.dp}, std::nullopt, ops));
  Program graphs;
  for (Graph& graph : program) graphs.push_back(std::move(graph));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), std::move(graphs)));
  job.options.recompute.whole = true;  // PyTorch's checkpoints call forward anew
  job.options.overlaps_gradients = false;
  job.options.adds_in_products = false;
  job.options.fuse = fusions == Fusions::kOurs;
  return job;
}

// Whether backward nodes read `value` that serve a layer's forward nodes, through boxings or not.
bool LayersRead(const Graph& graph, const std::vector<std::vector<NodeId>>& readers, const OpRegistry& ops,
                ValueId value) {
  return std::any_of(readers[value].begin(), readers[value].end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    if (!IsBackward(node)) return false;
    if (ops.Is(node.op, OpKind::kBoxing)) return LayersRead(graph, readers, ops, node.outputs[0]);
    return node.forward >= 0 && graph.SegmentOfKind(graph.node(node.forward).segment, "layers") >= 0;
  });
}

// What of layers is kept from forward to backward, of each micro-batch.
std::vector<ValueId> KeptOfLayers(const Graph& graph, const OpRegistry& ops) {
  const std::vector<bool> varies = DependsOnMicroBatch(graph, ops);
  const std::vector<std::vector<NodeId>> readers = graph.Consumers();
  std::vector<ValueId> kept;
  for (ValueId value = 0; value < graph.num_values(); ++value) {
    const NodeId maker = graph.value(value).producer;
    if (IsForward(graph.node(maker)) && varies[maker] && LayersRead(graph, readers, ops, value)) kept.push_back(value);
  }
  return kept;
}

// A byte for each element of dropouts in layers whose mask backward wants and has not computed again.
std::map<ValueId, int64_t> MasksOfLayers(const Graph& graph) {
  std::set<NodeId> again;  // forward nodes
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).role == Role::kRecompute) again.insert(graph.node(id).forward);
  }
  std::map<ValueId, int64_t> masks;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "dropout" || !IsForward(node) || again.count(id) > 0) continue;
    if (graph.SegmentOfKind(node.segment, "layers") < 0) continue;
    const Value& out = graph.value(node.outputs[0]);
    masks[node.outputs[0]] = ShardShape(out.type.shape, *out.dist, 0).count();
  }
  return masks;
}

struct Kept {
  int64_t activations = 0, masks = 0;
};

// Of one micro-batch, by the chunk of the model.
std::map<int, Kept> KeptOfChunks(const Graph& graph, const OpRegistry& ops) {
  const std::vector<std::vector<NodeId>> readers = graph.Consumers();
  std::map<int, Kept> kept;
  for (const ValueId value : KeptOfLayers(graph, ops)) {
    // What comes from another stage is kept where it is read.
    const Value& of = graph.value(value);
    kept[graph.node(readers[value][0]).chunk].activations += ShardBytes(of.type, *of.dist);
  }
  for (const auto& [value, bytes] : MasksOfLayers(graph)) {
    kept[graph.node(graph.value(value).producer).chunk].masks += bytes;
  }
  return kept;
}

// On the stage that keeps most at once: from forward to backward of each chunk of each micro-batch, in the order in
// which the plan has them.
Kept MostKept(const std::map<int, Kept>& of_chunk, const Schedule& schedule) {
  Kept most;
  const auto look = [&](const Kept& now) {
    if (now.activations + now.masks > most.activations + most.masks) most = now;
  };
  if (schedule.num_ranks() == 0) {
    for (const auto& [chunk, kept] : of_chunk) look(kept);
  }
  for (const std::vector<Action>& actions : schedule.ranks) {
    Kept now;
    for (const Action& action : actions) {
      const auto it = of_chunk.find(action.chunk);
      if (it == of_chunk.end()) continue;
      const int sign = action.kind == ActionKind::kForward ? 1 : -1;  // these schedules do not split backward
      now.activations += sign * it->second.activations;
      now.masks += sign * it->second.masks;
      look(now);
    }
  }
  return most;
}

absl::StatusOr<Kept> MostKeptOf(const PublishedRun& run, const std::string& text, const OpRegistry& ops,
                                Fusions fusions) {
  OF_ASSIGN_OR_RETURN(const Job job, JobOf(run, text, ops, fusions));
  VariableDists variables;
  OF_ASSIGN_OR_RETURN(const Graph graph, RunPasses(job.program[0], job.options, ops, variables, {}));
  return MostKept(KeptOfChunks(graph, ops), job.options.pipeline);
}

absl::StatusOr<double> StepSeconds(const pb::PlanSet& set, const Job& job, PricedKernels kernels,
                                   const OpRegistry& ops) {
  OF_ASSIGN_OR_RETURN(Topology topology, TopologyOf(job.options));
  OF_ASSIGN_OR_RETURN(const PartPrograms programs, PartPrograms::Of(set));
  PricedRanks priced(set, programs, 0, PredictedRankCosts(std::move(topology), ops, kernels));
  OF_ASSIGN_OR_RETURN(PlayedRanks ranks, FindPlayedRanks(priced, {}));
  OF_ASSIGN_OR_RETURN(const FoldedPlan folded, FoldedPlan::Make(priced, std::move(ranks), ""));
  Extent extent = kUntilSteady;
  extent.keep_acts = false;
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(folded.program(), 0, extent, folded.Costs()));
  const std::vector<int64_t>& ends = simulation.step_ends_ns;
  return 1e-9 * static_cast<double>(ends.back() - ends[ends.size() - 2]);
}

}  // namespace

absl::StatusOr<Prediction> PredictMemory(const PublishedRun& run, const std::string& text, const OpRegistry& ops) {
  Stopwatch watch;
  OF_ASSIGN_OR_RETURN(const Kept theirs, MostKeptOf(run, text, ops, Fusions::kTheirs));
  OF_ASSIGN_OR_RETURN(const Kept ours, MostKeptOf(run, text, ops, Fusions::kOurs));
  return Prediction{.activation_bytes = theirs.activations,
                    .mask_bytes = theirs.masks,
                    .fused_bytes = ours.activations + ours.masks,
                    .num_ranks = run.ranks(),
                    .wall_seconds = watch.Lap()};
}

absl::StatusOr<Prediction> Predict(const PublishedRun& run, const std::string& text, const OpRegistry& ops) {
  Stopwatch watch;
  OF_ASSIGN_OR_RETURN(Job job, JobOf(run, text, ops, Fusions::kTheirs));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet set, CompileJob(job, ops));
  const PricedKernels kernels = run.products_add ? PricedKernels::kFused : PricedKernels::kFusedButSums;
  OF_ASSIGN_OR_RETURN(const double seconds, StepSeconds(set, job, kernels, ops));
  return Prediction{.step_seconds = seconds, .num_ranks = run.ranks(), .wall_seconds = watch.Lap()};
}

}  // namespace oneflow
