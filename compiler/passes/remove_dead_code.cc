// Mark and sweep over the graph, from effects backwards.
#include <algorithm>

#include "compiler/passes/passes.h"

namespace oneflow {

absl::StatusOr<bool> RemoveDeadCode(Graph& graph, PassContext& context) {
  std::vector<bool> keep(graph.num_nodes(), false);
  for (const ValueId loss : graph.losses) keep[graph.value(loss).producer] = true;
  for (NodeId id = graph.num_nodes() - 1; id >= 0; --id) {  // readers have greater ids
    const Node& node = graph.node(id);
    OF_ASSIGN_OR_RETURN(const OpDef* const op, context.ops.Get(node.op));
    if (op->has_effect || !op->mutates.empty()) keep[id] = true;
    if (!keep[id]) continue;
    for (ValueId input : node.inputs) keep[graph.value(input).producer] = true;
  }
  if (std::find(keep.begin(), keep.end(), false) == keep.end()) return false;
  graph.Rebuild(keep);
  return true;
}

}  // namespace oneflow
