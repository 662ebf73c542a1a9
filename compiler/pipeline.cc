#include "compiler/pipeline.h"

#include "oneflow_core/verify.h"

namespace oneflow {
namespace {

constexpr Pass kPipeline[] = {
    {"key-random-ops", KeyRandomOps},  // the first
    {"mixed-precision", MixPrecision},
    {"autodiff", Autodiff},
    {"round-addends", RoundAddends},
    {"average-fetches", AverageFetches},
    {"optimizer", AddOptimizer},
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
    {"pack-weights", PackWeights},
    {"recompute", Recompute},
    {"fuse", Fuse},
    {"fuse-elementwise", FuseElementwise},
    {"pack-once", PackOnce},
    {"channel-blocks", ChannelBlocks},
};

}  // namespace

absl::Span<const Pass> Pipeline() { return kPipeline; }

absl::Status RunPipeline(absl::Span<const Pass> passes, Graph& graph, PassContext& context,
                         const PassObserver& observer) {
  const std::string name = graph.name();  // a pass that fails may leave no graph
  for (const Pass& pass : passes) {
    const auto where = [&] { return absl::StrCat("graph '", name, "': pass '", pass.name, "'"); };
    const absl::StatusOr<bool> changed = pass.run(graph, context);
    OF_RETURN_IF_ERROR_AT(changed.status(), where());
    if (*changed) {
      if (const absl::Status status = VerifyGraph(graph, context.ops); !status.ok()) {
        return absl::InternalError(absl::StrCat(where(), ": left a graph that is not one: ", status.message()));
      }
    }
    if (observer) observer(pass.name, graph);
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph> RunPasses(Graph graph, const CompileOptions& options, const OpRegistry& ops,
                                VariableDists& variables, const PassObserver& observer,
                                std::vector<std::string>* warnings) {
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
