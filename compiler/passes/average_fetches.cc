// Values that leave a step of several micro-batches: the host wants one number per step, and a running average takes
// one: the mean.
#include "compiler/passes/passes.h"
#include "oneflow_core/graph_editor.h"

namespace oneflow {
namespace {

// Appends accumulate and scale behind the value and points the node's input at the result.
absl::Status Average(GraphEditor& builder, NodeId id, int input, int micro_batches) {
  const Node node = builder.graph().node(id);
  const Tensor value(&builder, node.inputs[input]);
  if (value.type().dtype != DType::kFloat32) {  // an ema_update's is
    return absl::InvalidArgumentError(absl::StrCat("fetches ", value.type().ToString(), " from each of ", micro_batches,
                                                   " micro-batches; only f32 values can be averaged over them"));
  }
  builder.Imitate(node);
  const auto here = std::source_location::current();
  const Tensor sum = builder.Op1("accumulate", {value}, {}, here, absl::StrCat(node.name, "/accumulate"));
  const Tensor mean =
      builder.Op1("scale", {sum}, {{"alpha", 1.0 / micro_batches}}, here, absl::StrCat(node.name, "/mean"));
  OF_RETURN_IF_ERROR(builder.status());
  builder.mutable_graph().node(id).inputs[input] = mean.id();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> AverageFetches(Graph& graph, PassContext& context) {
  const int micro_batches = context.options.micro_batches;
  if (!graph.is_trained() || micro_batches == 1) return false;
  const std::vector<bool> varies = DependsOnMicroBatch(graph, context.ops);
  const int num_nodes = graph.num_nodes();
  GraphEditor builder(context.ops, std::move(graph));
  for (NodeId id = 0; id < num_nodes; ++id) {
    if (!varies[id]) continue;
    for (const int input : context.ops.Find(builder.graph().node(id).op)->averages) {
      OF_RETURN_IF_ERROR_AT(Average(builder, id, input, micro_batches), Where(builder.graph().node(id)));
    }
  }
  OF_ASSIGN_OR_RETURN(graph, builder.Finish());
  const bool changed = graph.num_nodes() > num_nodes;
  if (changed) graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
  return changed;
}

}  // namespace oneflow
