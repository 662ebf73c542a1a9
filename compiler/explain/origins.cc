#include "compiler/explain/origins.h"

#include <algorithm>

namespace oneflow {
namespace {

bool Asks(const SbpHint& hint, absl::string_view axis) {
  return std::any_of(hint.begin(), hint.end(), [&](const AxisSbp& wish) { return wish.axis == axis; });
}

class OriginFinder {
 public:
  OriginFinder(const GraphFacts& facts, const OpRegistry& ops)
      : facts_(facts), graph_(facts.placed), origins_(graph_.num_values()), partners_(graph_.num_nodes()) {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      for (int index : ops.Find(node.op)->mutates) {
        for (int other : ops.Find(node.op)->mutates) {
          if (index != other) partners_[Producer(node.inputs[index])].push_back(Producer(node.inputs[other]));
        }
      }
    }
  }

  std::vector<std::vector<Origin>> Run() {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      for (size_t output = 0; output < node.outputs.size(); ++output) {
        for (int axis = 0; axis < node.placement->num_axes(); ++axis) {
          origins_[node.outputs[output]].push_back(Find(id, output, axis));
        }
      }
    }
    return std::move(origins_);
  }

 private:
  NodeId Producer(ValueId value) const { return graph_.value(value).producer; }

  Origin Find(NodeId id, size_t output, int axis) const {
    const Node& node = graph_.node(id);
    const std::string& name = node.placement->axes()[axis].name;
    const SbpHint& hint = graph_.value(node.outputs[output]).hint;
    if (!Asks(hint, name)) return FindUnasked(id, output, axis);
    const AxisSbp& wish =
        *std::find_if(hint.begin(), hint.end(), [&](const AxisSbp& item) { return item.axis == name; });
    if (wish.sbp == facts_.chosen[id].outputs[output][axis]) return {Origin::Kind::kAnnotated, id};
    Origin origin = FindUnasked(id, output, axis);
    origin.yielded = true;
    return origin;
  }

  Origin FindUnasked(NodeId id, size_t output, int axis) const {
    const Node& node = graph_.node(id);
    const std::string& name = node.placement->axes()[axis].name;
    if (facts_.Is(node, OpKind::kVariable)) return OfVariable(id, name, axis);
    const Sbp& chosen = facts_.chosen[id].outputs[output][axis];
    const std::vector<Layout>& candidates = facts_.candidates[id];
    const bool forced = std::all_of(candidates.begin(), candidates.end(),
                                    [&](const Layout& candidate) { return candidate.outputs[output][axis] == chosen; });
    if (!forced) return {Origin::Kind::kCost};
    const NodeId annotated = AnnotatedBefore(node, id, name, axis);
    return annotated < 0 ? Origin{Origin::Kind::kOnly} : Origin{Origin::Kind::kInherited, annotated};
  }

  // A variable with many candidates may still have no choice: its update overwrites others with it.
  Origin OfVariable(NodeId id, const std::string& axis_name, int axis) const {
    if (facts_.fixed.count(graph_.node(id).name) > 0) return {Origin::Kind::kFixed};
    for (NodeId partner : partners_[id]) {
      const Node& other = graph_.node(partner);
      const bool decided = Asks(graph_.value(other.outputs[0]).hint, axis_name) || facts_.fixed.count(other.name) > 0;
      if (decided && facts_.chosen[partner].outputs[0] == facts_.chosen[id].outputs[0]) {
        return {Origin::Kind::kTied, partner};
      }
    }
    const std::vector<Layout>& candidates = facts_.candidates[id];
    const bool forced = std::all_of(candidates.begin(), candidates.end(), [&](const Layout& candidate) {
      return candidate.outputs[0][axis] == candidates[0].outputs[0][axis];
    });
    return {forced ? Origin::Kind::kOnly : Origin::Kind::kCost};
  }

  // The annotated tensor that is the origin of a kept split of the node's input, or -1.
  NodeId AnnotatedBefore(const Node& node, NodeId id, const std::string& axis_name, int axis) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      const Node& producer = graph_.node(Producer(input));
      const Sbp& wanted = facts_.chosen[id].inputs[i][axis];
      if (!wanted.is_split() || facts_.Is(producer, OpKind::kVariable)) continue;
      for (int a = 0; a < producer.placement->num_axes(); ++a) {
        if (producer.placement->axes()[a].name != axis_name) continue;
        if (facts_.chosen[Producer(input)].outputs[graph_.value(input).output][a] != wanted) continue;
        const Origin& before = origins_[input][a];
        if (before.kind == Origin::Kind::kAnnotated || before.kind == Origin::Kind::kInherited) return before.from;
      }
    }
    return -1;
  }

  const GraphFacts& facts_;
  const Graph& graph_;
  std::vector<std::vector<Origin>> origins_;
  std::vector<std::vector<NodeId>> partners_;  // by node: variables that some node overwrites together with this one
};

}  // namespace

std::vector<std::vector<Origin>> FindOrigins(const GraphFacts& facts, const OpRegistry& ops) {
  return OriginFinder(facts, ops).Run();
}

}  // namespace oneflow
