#include "compiler/tier_copies.h"

#include <algorithm>
#include <utility>

namespace oneflow {

ValueId AddTierCopy(Graph& graph, TierCopy copy, const TierKind& tier, std::vector<ValueId> inputs, std::string name,
                    const Node& like) {
  const Value from = graph.value(inputs.back());
  Node node;
  node.op = copy == TierCopy::kLoad ? "from_tier" : copy == TierCopy::kStore ? "to_tier" : "store_in_tier";
  node.name = std::move(name);
  node.attrs.Set(kTierAttr, std::string(tier.name));
  node.inputs = std::move(inputs);
  node.source = like.source;
  node.role = like.role;
  node.forward = like.forward;
  node.variable = like.variable;
  node.chunk = like.chunk;
  node.unit = like.unit;
  node.rate = like.rate;
  node.placement = from.dist->placement;
  const bool says_when = copy == TierCopy::kStoreInto;
  const TensorType type = says_when ? TensorType{DType::kBool, {0}} : from.type;
  const ValueId output = graph.node(graph.AddNode(std::move(node), {type})).outputs[0];
  Value& to = graph.value(output);
  to.dist = from.dist;
  to.layout = from.layout;
  if (says_when) {
    to.dist->sbp.assign(from.dist->sbp.size(), Sbp::Broadcast());
    to.layout = MemoryLayout::kRowMajor;
  }
  return output;
}

int FirstFreeUnit(const Graph& graph) {
  int number = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) number = std::max(number, graph.node(id).unit + 1);
  return number;
}

}  // namespace oneflow
