// Gradients, and sums of activations, that travel in a narrow type. What is rounded are addends: a boxing adds them up
// in f32 and rounds the sum once (kernels/copy.h; NCCL rounds at every rank on the way).
//
// Gradients are rounded where they are reduced: behind the sum over the micro-batches of a step, or before it where
// parts of gradients are reduced in every micro-batch (split-states). That sum is f32, unless it is asked for in the
// narrow type too.
#include <algorithm>
#include <set>

#include "compiler/passes/add_cast.h"
#include "compiler/passes/passes.h"

namespace oneflow {
namespace {

class AddendRounder {
 public:
  AddendRounder(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        reduce_(context.options.precision.reduce),
        sums_narrow_(IsNarrow(context.options.precision.accumulate)),
        consumers_(graph.Consumers()),
        names_(graph) {
    const PlanMesh mesh = context.options.MeshOf(graph.name());
    for (const Axis& axis : mesh.mesh().axes()) {
      if (axis.Has(AxisRole::kBatch) && axis.size > 1) batch_axes_.insert(axis.name);
    }
  }

  void Run() {
    const int num_nodes = graph_.num_nodes();
    const std::vector<ValueId> gradients = VariableGradients(graph_);
    for (NodeId id = 0; id < num_nodes; ++id) {
      const Node& node = graph_.node(id);
      if (node.variable >= 0 && context_.ops.Is(node.op, OpKind::kAccumulate)) VisitSum(id);
      if (!context_.ops.Is(node.op, OpKind::kCast) || !IsNarrow(graph_.value(node.outputs[0]).type.dtype)) continue;
      if (IsFloating(graph_.value(node.inputs[0]).type.dtype)) graph_.node(id).attrs.Set("addends", true);
    }
    for (NodeId id = 0; id < num_nodes; ++id) {
      if (gradients[id] < 0 || reduced_.count(id) > 0) continue;
      if (!IsNarrow(graph_.value(gradients[id]).type.dtype)) Rounded(gradients[id]);
    }
    graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
  }

 private:
  ValueId Rounded(ValueId value) {
    const Node producer = graph_.node(graph_.value(value).producer);
    const ValueId rounded = AddCast(graph_, value, reduce_, producer, names_);
    graph_.node(graph_.value(rounded).producer).attrs.Set("addends", true);
    return rounded;
  }

  ValueId Widened(ValueId value) {
    const Node producer = graph_.node(graph_.value(value).producer);
    return AddCast(graph_, value, DType::kFloat32, producer, names_);
  }

  // Node `id` adds up a variable's gradients over micro-batches.
  void VisitSum(NodeId id) {
    const ValueId sum = graph_.node(id).outputs[0];
    const SbpHint& hint = graph_.value(sum).hint;
    if (!sums_narrow_ && hint.empty()) return;
    const NodeId variable = graph_.node(id).variable;
    const ValueId rounded = Rounded(graph_.node(id).inputs[0]);
    if (!sums_narrow_) {
      const ValueId widened = Widened(rounded);
      graph_.node(id).inputs[0] = widened;
      const auto is_reduced = [&](const std::string& axis) {
        return std::any_of(hint.begin(), hint.end(), [&](const AxisSbp& wish) { return wish.axis == axis; });
      };
      if (std::all_of(batch_axes_.begin(), batch_axes_.end(), is_reduced)) reduced_.insert(variable);
      return;
    }
    graph_.node(id).inputs[0] = rounded;
    graph_.value(sum).type.dtype = reduce_;
    if (consumers_[sum].empty()) return;  // it is the gradient, which the optimizer widens
    const ValueId widened = Widened(sum);
    for (const NodeId reader : consumers_[sum]) {
      for (ValueId& input : graph_.node(reader).inputs) {
        if (input == sum) input = widened;
      }
    }
  }

  Graph& graph_;
  const PassContext& context_;
  const DType reduce_;
  const bool sums_narrow_;
  const std::vector<std::vector<NodeId>> consumers_;  // before anything is added
  UniqueNames names_;
  std::set<std::string> batch_axes_;
  std::set<NodeId> reduced_;  // variables whose gradients are reduced in every micro-batch, along all of these
};

}  // namespace

absl::StatusOr<bool> RoundAddends(Graph& graph, PassContext& context) {
  if (!IsNarrow(context.options.precision.reduce)) return false;
  AddendRounder(graph, context).Run();
  return true;
}

}  // namespace oneflow
