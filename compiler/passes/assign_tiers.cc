// Which weights lie in a tier of memory below the device's: where the job says so, those that are large enough. (States
// of the optimizer are marked when they are made, passes/optimizer.cc.) Layouts then know that they take no memory of a
// device.
#include "compiler/passes/passes.h"
#include "oneflow_core/tiers.h"
#include "oneflow_core/variable_role.h"

namespace oneflow {

absl::StatusOr<bool> AssignTiers(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    const bool is_weight = context.ops.Is(node.op, OpKind::kVariable) && node.role != Role::kUpdate &&
                           IsLearned(RoleOfVariable(node.attrs));
    if (!is_weight || TierOf(node.attrs) != nullptr) continue;
    const TensorType& type = graph.value(node.outputs[0]).type;
    const TierKind* const tier = TierFor(context.options, OffloadOptions::What::kWeights, type);
    if (tier == nullptr) continue;
    node.attrs.Set(kTierAttr, std::string(tier->name));
    changed = true;
  }
  return changed;
}

}  // namespace oneflow
