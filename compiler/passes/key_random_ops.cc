// Random numbers are a function of a job's seed and an op's key, so an op draws the same ones under every layout. An
// unset key becomes the node's name as the user gave it; from here on names may change.
#include "compiler/passes/passes.h"

namespace oneflow {

absl::StatusOr<bool> KeyRandomOps(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!context.ops.Find(node.op)->random || node.attrs.Has("key")) continue;
    node.attrs.Set("key", node.name);
    changed = true;
  }
  return changed;
}

}  // namespace oneflow
