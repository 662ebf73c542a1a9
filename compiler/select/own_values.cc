#include "compiler/select/own_values.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

bool IsMeanOf(const VariableDists& variables, const std::string& name, const std::string& axis) {
  const auto known = variables.find(name);
  if (known == variables.end()) return false;
  const std::vector<Axis>& axes = known->second.placement.axes();
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].name == axis && known->second.sbp[a].is_mean()) return true;
  }
  return false;
}

}  // namespace

OwnValues::OwnValues(const Graph& graph, const OpRegistry& ops, const VariableDists& variables, const OwnAxis& axis)
    : axis_(axis.name) {
  if (axis.name.empty()) return;
  is_own_.assign(graph.num_values(), false);
  for (NodeId id = 0; axis.graph_is_own && id < graph.num_nodes(); ++id) {
    for (const int input : ops.Find(graph.node(id).op)->mutates) is_own_[graph.node(id).inputs[input]] = true;
  }
  while (Follow(graph, ops, variables, axis)) {
  }
}

// Goes through the graph once; whether a variable before its reader was found to be overwritten with such a value.
bool OwnValues::Follow(const Graph& graph, const OpRegistry& ops, const VariableDists& variables, const OwnAxis& axis) {
  bool found = false;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const OpDef& op = *ops.Find(node.op);
    const auto is_own = [&](ValueId value) { return is_own_[value]; };
    const bool begins = axis.graph_is_own && (op.kind == OpKind::kData || op.random);
    const bool is_known = op.kind == OpKind::kVariable && IsMeanOf(variables, node.name, axis.name);
    const bool follows = std::any_of(node.inputs.begin(), node.inputs.end(), is_own) && !op.makes_rows;
    if (!begins && !is_known && !follows) continue;
    for (const ValueId output : node.outputs) is_own_[output] = true;
    for (const int input : op.mutates) {
      found = found || !is_own_[node.inputs[input]];
      is_own_[node.inputs[input]] = true;
    }
  }
  return found;
}

absl::StatusOr<std::optional<Signature>> OwnValues::SignatureOf(const Graph& graph, const OpRegistry& ops, NodeId id,
                                                                const std::string& axis) const {
  const Node& node = graph.node(id);
  Signature signature;
  NodeId source = -1;  // of a value that differs
  for (const ValueId input : node.inputs) {
    signature.inputs.push_back(Has(input, axis) ? Sbp::Mean() : Sbp::Broadcast());
    if (Has(input, axis)) source = graph.value(input).producer;
  }
  bool makes = false;
  for (const ValueId output : node.outputs) {
    makes = makes || Has(output, axis);
    signature.outputs.push_back(Has(output, axis) ? Sbp::Mean() : Sbp::Broadcast());
  }
  if (source < 0 && !makes) return std::nullopt;
  signature.reason = "each rank by itself";
  const OpDef& op = *ops.Find(node.op);
  if (op.makes_rows) {
    signature.outputs[0] = Sbp::Split(0);
    return signature;
  }
  const bool is_variable = op.kind == OpKind::kVariable;
  for (const ValueId output : node.outputs) {
    for (const AxisSbp& wish : graph.value(output).hint) {
      // Samples, and what is computed with them, are divided among ranks by being their own.
      const bool is_met = wish.axis != axis || (is_variable ? wish.sbp.is_broadcast() : !wish.sbp.is_broadcast());
      if (is_met || wish.sbp.is_mean() || wish.priority > 0) continue;
      const std::string from = source < 0 ? "" : absl::StrCat(", which follows from ", Where(graph.node(source)));
      return absl::InvalidArgumentError(absl::StrCat(Where(node), ": is asked for as ", wish.sbp.ToString(), " along '",
                                                     axis, "', where each rank has one of its own", from));
    }
  }
  return signature;
}

}  // namespace oneflow
