#include "compiler/pipeline.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "oneflow_core/verify.h"

namespace oneflow {
namespace {

// A hint for an axis that no mesh of the job has would have no effect. It is a mistake, unless it names a role, as
// every model may.
absl::Status CheckAxis(const CompileOptions& options, absl::string_view axis) {
  const auto has = [&](const Mesh& mesh) {
    return std::any_of(mesh.axes().begin(), mesh.axes().end(), [&](const Axis& a) { return a.name == axis; });
  };
  bool known = BuiltInRole(axis) != AxisRole::kNone || has(options.mesh);
  std::set<std::string> names;
  for (const Axis& a : options.mesh.axes()) names.insert(a.name);
  for (const auto& [graph, own] : options.meshes) {
    known = known || has(own.mesh());
    for (const Axis& a : own.mesh().axes()) names.insert(a.name);
  }
  if (known) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a hint is for axis '", axis, "', but no mesh of the job has it; they have ",
                   names.empty() ? "none" : absl::StrCat("'", absl::StrJoin(names, "', '"), "'")));
}

absl::Status CheckHints(const Graph& graph, const CompileOptions& options) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    for (const AxisCoordinate& wish : node.at) OF_RETURN_IF_ERROR_AT(CheckAxis(options, wish.axis), Where(node));
    for (const ValueId output : node.outputs) {
      for (const AxisSbp& wish : graph.value(output).hint) {
        OF_RETURN_IF_ERROR_AT(CheckAxis(options, wish.axis), Where(node));
      }
    }
  }
  return absl::OkStatus();
}

constexpr Pass kPipeline[] = {
    {"key-random-ops", KeyRandomOps},  // the first
    {"read-averages", ReadAverages},
    {"name-axes", NameAxes},
    {"sequence-parallel", SequenceParallel},
    {"mixed-precision", MixPrecision},
    {"autodiff", Autodiff},
    {"average-fetches", AverageFetches},
    {"split-states", SplitStates},
    {"round-addends", RoundAddends},
    {"compress-gradients", CompressGradients},
    {"mean-gradients", MeanGradients},
    {"optimizer", AddOptimizer},
    {"local-steps", LocalSteps},
    {"assign-tiers", AssignTiers},
    {"remove-dead-code", RemoveDeadCode},
    {"place-nodes", PlaceNodes},
    {"group-sums", GroupSums},
    {"expand-composites", ExpandComposites},
    {"assign-rates", AssignRates},
    {"select-sbp", SelectLayouts},
    {"fuse-composites", FuseComposites},
    {"narrow-products", NarrowProducts},
    {"check-replicas", CheckReplicas},
    {"insert-boxing", InsertBoxing},
    {"code-boxings", CodeBoxings},
    {"pack-weights", PackWeights},
    {"recompute", Recompute},
    {"ring-attention", RingAttention},
    {"fuse", Fuse},
    {"fuse-elementwise", FuseElementwise},
    {"pack-once", PackOnce},
    {"channel-blocks", ChannelBlocks},
    {"offload", Offload},
    {"offload-activations", OffloadActivations},
    {"gather-weights", GatherWeights},
    {"reduce-gradients", ReduceGradients},
};

}  // namespace

absl::Span<const Pass> Pipeline() { return kPipeline; }

absl::Status RunPipeline(absl::Span<const Pass> passes, Graph& graph, PassContext& context,
                         const PassObserver& observer) {
  const std::string name = graph.name();  // a pass that fails may leave no graph
  for (const Pass& pass : passes) {
    const auto where = [&] { return absl::StrCat("graph '", name, "': pass '", pass.name, "'"); };
    const size_t num_losses = graph.losses.size();
    const absl::StatusOr<bool> changed = pass.run(graph, context);
    OF_RETURN_IF_ERROR_AT(changed.status(), where());
    if (*changed) {
      if (const absl::Status status = VerifyGraph(graph, context.ops); !status.ok()) {
        return absl::InternalError(absl::StrCat(where(), ": left a graph that is not one: ", status.message()));
      }
      if (graph.losses.size() != num_losses) {
        return absl::InternalError(
            absl::StrCat(where(), ": left ", graph.losses.size(), " of ", num_losses, " losses"));
      }
    }
    if (observer) observer(pass.name, graph);
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph> RunPasses(Graph graph, const CompileOptions& options, const OpRegistry& ops,
                                VariableDists& variables, const PassObserver& observer,
                                std::vector<std::string>* warnings) {
  if (const auto own = options.own_steps.find(graph.name()); own != options.own_steps.end()) {
    CompileOptions of_graph = options;
    of_graph.micro_batches = own->second.micro_batches;
    of_graph.pipeline = own->second.pipeline;
    of_graph.own_steps.clear();
    return RunPasses(std::move(graph), of_graph, ops, variables, observer, warnings);
  }
  OF_RETURN_IF_ERROR(VerifyGraph(graph, ops));
  if (options.micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step has ", options.micro_batches, " micro-batches; it needs at least 1"));
  }
  if (options.ranks_per_process < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a process holds ", options.ranks_per_process, " ranks; it needs at least 1"));
  }
  OF_RETURN_IF_ERROR(CheckHosts(options));
  OF_RETURN_IF_ERROR_AT(CheckHints(graph, options), absl::StrCat("graph '", graph.name(), "'"));
  PassContext context{options, ops, variables, JobTopology(options)};
  OF_RETURN_IF_ERROR(RunPipeline(Pipeline(), graph, context, observer));
  OF_RETURN_IF_ERROR_AT(VerifyBoxedGraph(graph, ops, options), absl::StrCat("graph '", graph.name(), "'"));
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (ops.Is(node.op, OpKind::kVariable)) variables.emplace(node.name, *graph.value(node.outputs[0]).dist);
  }
  if (warnings != nullptr) warnings->insert(warnings->end(), context.warnings.begin(), context.warnings.end());
  return graph;
}

}  // namespace oneflow
