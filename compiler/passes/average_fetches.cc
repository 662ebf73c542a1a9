// Values that leave a step of several micro-batches: the host wants one number per step, and a running average takes
// one: the mean. Of a `step_mean` it is that of the sums over the micro-batches.
//
// A graph without a loss is run batch by batch, and the host takes the mean over all batches. A `step_mean` among its
// fetches brings its weight along, so that all that counts in any batch counts alike.
//
//   before:  step_mean(m) -> fetch        after:  concat(m, weight) -> fetch {weighted}
#include "compiler/passes/passes.h"
#include "oneflow_core/graph_editor.h"

namespace oneflow {
namespace {

// The mean over the micro-batches of `value`, of which that node has an input.
Tensor MeanOf(GraphEditor& builder, const Tensor& value, const std::string& name, int micro_batches) {
  const auto here = std::source_location::current();
  const auto sum = [&](const Tensor& x) {
    return builder.Op1("accumulate", {x}, {}, here, absl::StrCat(name, "/accumulate"));
  };
  const Node producer = builder.graph().node(builder.graph().value(value.id()).producer);
  const std::string mean = absl::StrCat(name, "/mean");
  if (builder.ops().Find(producer.op)->is_step_mean) {
    const Tensor total = sum(Tensor(&builder, producer.inputs[0])), weight = sum(Tensor(&builder, producer.inputs[1]));
    return builder.Op1("step_mean", {total, weight}, {}, here, mean);
  }
  return builder.Op1("scale", {sum(value)}, {{"alpha", 1.0 / micro_batches}}, here, mean);
}

// Points the node's input at its mean.
absl::Status Average(GraphEditor& builder, NodeId id, int input, int micro_batches) {
  const Node node = builder.graph().node(id);
  const Tensor value(&builder, node.inputs[input]);
  if (value.type().dtype != DType::kFloat32) {  // an ema_update's is
    return absl::InvalidArgumentError(absl::StrCat("fetches ", value.type().ToString(), " from each of ", micro_batches,
                                                   " micro-batches; only f32 values can be averaged over them"));
  }
  builder.Imitate(node);
  const Tensor mean = MeanOf(builder, value, node.name, micro_batches);
  OF_RETURN_IF_ERROR(builder.status());
  builder.mutable_graph().node(id).inputs[input] = mean.id();
  return absl::OkStatus();
}

// Gives a fetch of a step_mean the mean with its weight.
absl::Status Weigh(GraphEditor& builder, NodeId id) {
  const Node node = builder.graph().node(id);
  if (!builder.ops().Is(node.op, OpKind::kFetch)) return absl::OkStatus();
  const Node producer = builder.graph().node(builder.graph().value(node.inputs[0]).producer);
  if (!builder.ops().Find(producer.op)->is_step_mean) return absl::OkStatus();
  builder.Imitate(node);
  const auto element = [&](ValueId value) {
    return builder.Op1("reshape", {Tensor(&builder, value)}, {{"shape", std::vector<int64_t>{1}}},
                       std::source_location::current(), absl::StrCat(node.name, "/element"));
  };
  const Tensor pair =
      builder.Op1("concat", {element(node.inputs[0]), element(producer.inputs[1])}, {{"axis", int64_t{0}}},
                  std::source_location::current(), absl::StrCat(node.name, "/weighted"));
  OF_RETURN_IF_ERROR(builder.status());
  Node& fetch = builder.mutable_graph().node(id);
  fetch.inputs[0] = pair.id();
  fetch.attrs.Set("weighted", true);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> AverageFetches(Graph& graph, PassContext& context) {
  const int micro_batches = context.options.micro_batches;
  const bool trained = graph.is_trained();
  if (trained && micro_batches == 1) return false;
  const std::vector<bool> varies = trained ? DependsOnMicroBatch(graph, context.ops) : std::vector<bool>();
  const int num_nodes = graph.num_nodes();
  GraphEditor builder(context.ops, std::move(graph));
  for (NodeId id = 0; id < num_nodes; ++id) {
    const std::string where = Where(builder.graph().node(id));
    if (!trained) OF_RETURN_IF_ERROR_AT(Weigh(builder, id), where);
    if (!trained || !varies[id]) continue;
    for (const int input : context.ops.Find(builder.graph().node(id).op)->averages) {
      OF_RETURN_IF_ERROR_AT(Average(builder, id, input, micro_batches), where);
    }
  }
  OF_ASSIGN_OR_RETURN(graph, builder.Finish());
  const bool changed = graph.num_nodes() > num_nodes;
  if (changed) graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
  return changed;
}

}  // namespace oneflow
