// Sums over pipeline stages: of the gradients' squares for the global norm, and of gradients of a weight used on
// several stages.
#include <map>

#include "compiler/passes/passes.h"
#include "oneflow_core/graph_editor.h"

namespace oneflow {
namespace {

// The place of a value's producer. The builder knows no placements, so they are read from the graph, and written into
// it behind the builder's back.
const Placement& PlaceOf(const Graph& graph, ValueId value) {
  return *graph.node(graph.value(value).producer).placement;
}

// Replaces the addends of `sum` that lie together elsewhere by one sum of them there.
bool Group(GraphEditor& builder, NodeId sum) {
  const Node node = builder.graph().node(sum);
  std::map<Placement, std::vector<ValueId>> groups;
  for (ValueId input : node.inputs) groups[PlaceOf(builder.graph(), input)].push_back(input);
  std::vector<ValueId> inputs;
  for (ValueId input : node.inputs) {
    const Placement place = PlaceOf(builder.graph(), input);
    std::vector<ValueId>& group = groups[place];
    if (place == *node.placement || group.size() == 1) {
      inputs.push_back(input);
    } else if (!group.empty()) {
      std::vector<Tensor> addends;
      for (ValueId addend : group) addends.emplace_back(&builder, addend);
      builder.Imitate(node);
      const Tensor partial = builder.Op1("add_n", addends, {}, std::source_location::current(), node.name);
      if (!partial.valid()) return false;
      builder.mutable_graph().node(builder.graph().value(partial.id()).producer).placement = place;
      inputs.push_back(partial.id());
      group.clear();  // the others of the group are now in the sum
    }
  }
  const bool changed = inputs.size() < node.inputs.size();
  builder.mutable_graph().node(sum).inputs = std::move(inputs);
  return changed;
}

}  // namespace

absl::StatusOr<bool> GroupSums(Graph& graph, PassContext& context) {
  bool changed = false;
  const int num_nodes = graph.num_nodes();
  GraphEditor builder(context.ops, std::move(graph));
  for (NodeId id = 0; id < num_nodes; ++id) {
    if (context.ops.Find(builder.graph().node(id).op)->is_sum) changed = Group(builder, id) || changed;
  }
  OF_ASSIGN_OR_RETURN(graph, builder.Finish());
  if (changed) graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
  return changed;
}

}  // namespace oneflow
