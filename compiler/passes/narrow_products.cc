// Folds casts into the sums that they round. It runs when layouts are known: the reader of a sum that is partial where
// it is made is a boxing, not a cast. (Unless a job asks for rounded addends: then the cast passes them, and so may the
// op, but not a sum of values that are partial themselves.)
#include <algorithm>

#include "compiler/node_view.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/ragged.h"

namespace oneflow {
namespace {

// The cast, to a narrow type, that is the only reader of output 0 of the node, on the same ranks and as often; or -1. A
// loss is read as it is.
NodeId OnlyCast(const Graph& graph, NodeId id, const OpRegistry& ops,
                const std::vector<std::vector<NodeId>>& consumers) {
  const Node& node = graph.node(id);
  const ValueId sum = node.outputs[0];
  const bool is_loss = std::find(graph.losses.begin(), graph.losses.end(), sum) != graph.losses.end();
  if (consumers[sum].size() != 1 || is_loss) return -1;
  const NodeId reader = consumers[sum][0];
  const Node& cast = graph.node(reader);
  if (!ops.Is(cast.op, OpKind::kCast) || !IsNarrow(graph.value(cast.outputs[0]).type.dtype)) return -1;
  const bool alike = graph.value(sum).dist == graph.value(cast.outputs[0]).dist && node.rate == cast.rate &&
                     PartOf(node.role) == PartOf(cast.role) && cast.after.empty();
  return alike ? reader : -1;
}

// Lets the node give its sum in that type, if its op can, in its layout; returns whether it can.
bool GiveAs(DType narrow, Graph& graph, NodeId id, const OpRegistry& ops) {
  Node with = graph.node(id);
  TensorType& type = graph.value(with.outputs[0]).type;
  const DType wide = type.dtype;
  with.attrs.Set("out_dtype", std::string(Name(narrow)));
  type.dtype = narrow;
  if (TryReplace(graph, id, std::move(with), ops)) return true;
  type.dtype = wide;
  return false;
}

}  // namespace

absl::StatusOr<bool> NarrowProducts(Graph& graph, PassContext& context) {
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  std::vector<bool> keep(graph.num_nodes(), true);
  std::vector<NodeId> instead(graph.num_nodes());
  for (NodeId id = 0; id < graph.num_nodes(); ++id) instead[id] = id;
  bool changed = false;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const OpDef& op = *context.ops.Find(graph.node(id).op);
    if (!op.has_out_dtype) continue;
    const NodeId cast = OnlyCast(graph, id, context.ops, consumers);
    if (cast < 0) continue;
    if (!GiveAs(graph.value(graph.node(cast).outputs[0]).type.dtype, graph, id, context.ops)) continue;
    const Node& node = graph.node(id);
    for (const NodeId reader : consumers[graph.node(cast).outputs[0]]) {
      for (ValueId& input : graph.node(reader).inputs) {
        if (input == graph.node(cast).outputs[0]) input = node.outputs[0];
      }
    }
    Absorb(graph.node(cast), graph.node(id));
    keep[cast] = false;
    instead[cast] = id;
    changed = true;
  }
  if (!changed) return false;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (node.forward >= 0) node.forward = instead[node.forward];
    for (ValueId& value : node.after) {
      const NodeId producer = instead[graph.value(value).producer];
      if (!keep[graph.value(value).producer]) value = graph.node(producer).outputs[0];
    }
  }
  graph.Rebuild(keep);
  return true;
}

}  // namespace oneflow
