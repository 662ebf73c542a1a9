// Wishes for parts instead of copies, which are ordinary annotations; layouts, transfers and the optimizer's state
// follow from them. It runs before the optimizer, whose states have the wishes of their weight.
//
// Of a weight that dimension is divided which divides evenly and is not divided along other axes: parts along two axes
// of one dimension would be interleaved, so that gathering along one does not give the other's parts. A weight without
// such a dimension stays a copy.
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/passes/passes.h"
#include "compiler/zero.h"
#include "oneflow_core/variable_role.h"

namespace oneflow {
namespace {

class StateSplitter {
 public:
  StateSplitter(Graph& graph, const PassContext& context, std::set<std::string> axes)
      : graph_(graph),
        context_(context),
        zero_(*context.options.zero),
        axes_(std::move(axes)),
        mesh_(context.options.MeshOf(graph.name())) {
    for (const std::string& axis : axes_) parts_ *= mesh_.mesh().AxisSize(axis);
  }

  // Returns whether it wished for anything.
  bool Run() {
    const std::vector<ValueId> gradients = VariableGradients(graph_);
    FindSums();
    bool changed = false;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (!context_.ops.Is(node.op, OpKind::kVariable) || !IsLearned(RoleOfVariable(node.attrs))) continue;
      if (context_.variables.count(node.name) > 0) continue;  // it has its home
      if (zero_.stage < 3 && gradients[id] < 0) continue;     // it has no state
      Value& weight = graph_.value(node.outputs[0]);
      if (IsWishedAlong(weight.hint)) continue;
      const std::optional<int> dim = DimensionFor(weight);
      if (!dim.has_value()) continue;
      Wish(*dim, weight.hint);
      if (zero_.stage > 1 && !zero_.sums_once) SplitSums(id, weight.type.shape, *dim);
      changed = true;
    }
    return changed;
  }

 private:
  bool IsWishedAlong(const SbpHint& hint) const {
    return std::any_of(hint.begin(), hint.end(), [&](const AxisSbp& wish) { return axes_.count(wish.axis) > 0; });
  }

  // The first that divides evenly, else the largest.
  std::optional<int> DimensionFor(const Value& weight) const {
    const Shape& shape = weight.type.shape;
    std::optional<int> largest;
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const bool is_divided = std::any_of(weight.hint.begin(), weight.hint.end(), [&](const AxisSbp& wish) {
        return wish.sbp.is_split() && wish.sbp.dim() == dim && mesh_.mesh().AxisSize(wish.axis) > 1;
      });
      if (is_divided || shape[dim] < parts_) continue;
      if (shape[dim] % parts_ == 0) return dim;
      if (!largest.has_value() || shape[dim] > shape[*largest]) largest = dim;
    }
    return largest;
  }

  void Wish(int dim, SbpHint& hint) const {
    for (const std::string& axis : axes_) hint.push_back({axis, Sbp::Split(dim)});
  }

  // Gradients are added up where the parts of the weight are.
  void SplitSums(NodeId variable, const Shape& shape, int dim) {
    for (const ValueId value : sums_[variable]) {
      Value& sum = graph_.value(value);
      if (sum.type.shape == shape && !sum.type.is_ragged() && !IsWishedAlong(sum.hint)) Wish(dim, sum.hint);
    }
  }

  void FindSums() {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      const bool is_sum = node.variable >= 0 && context_.ops.Is(node.op, OpKind::kAccumulate);
      if (is_sum) sums_[node.variable].push_back(node.outputs[0]);
    }
  }

  Graph& graph_;
  const PassContext& context_;
  const ZeroOptions& zero_;
  const std::set<std::string> axes_;
  const PlanMesh mesh_;
  int64_t parts_ = 1;
  std::map<NodeId, std::vector<ValueId>> sums_;  // over micro-batches, of gradients of each variable
};

// What else is done with gradients, or copies of weights, along these axes.
absl::Status CheckAlone(const CompileOptions& options, const Graph& graph, const std::set<std::string>& axes) {
  const PlanMesh mesh = options.MeshOf(graph.name());
  const auto meets = [&](const std::string& axis) {
    const std::set<std::string> others = AxesNamed(mesh.mesh(), axis);
    return std::any_of(others.begin(), others.end(), [&](const std::string& other) { return axes.count(other) > 0; });
  };
  const std::string zero = absl::StrCat("zero divides the state along '", options.zero->axis, "', ");
  if (options.local_training.has_value() && meets(options.local_training->axis)) {
    return absl::InvalidArgumentError(absl::StrCat(zero, "where ranks train by themselves (sync), each all of it"));
  }
  const bool sums_codes = options.compress.has_value() && !options.compress->codec.empty() &&
                          meets(options.compress->axis) && options.micro_batches > 1;
  if (sums_codes && options.zero->stage > 1 && !options.zero->sums_once) {
    return absl::InvalidArgumentError(
        absl::StrCat(zero, "where gradients travel as codes (compress), once a step: stage ", options.zero->stage,
                     " would sum them in every micro-batch; use sum_once, or stage 1"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> SplitStates(Graph& graph, PassContext& context) {
  if (!context.options.zero.has_value()) return false;
  const std::set<std::string> axes = ZeroAxes(context.options, graph);
  if (axes.empty()) {
    if (graph.is_trained()) {
      context.warnings.push_back(absl::StrCat("graph '", graph.name(), "': zero changes nothing: its mesh ",
                                              AxesText(context.options.MeshOf(graph.name()).mesh().axes()),
                                              " has nothing to divide along '", context.options.zero->axis, "'"));
    }
    return false;
  }
  OF_RETURN_IF_ERROR(CheckAlone(context.options, graph, axes));
  return StateSplitter(graph, context, axes).Run();
}

}  // namespace oneflow
