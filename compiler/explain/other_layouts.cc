#include "compiler/explain/other_layouts.h"

#include <algorithm>
#include <limits>
#include <set>

namespace oneflow {
namespace {

class Surroundings {
 public:
  Surroundings(const GraphFacts& facts, const OpRegistry& ops, NodeId node, CostModel& costs)
      : facts_(facts),
        graph_(facts.placed),
        node_(graph_.node(node)),
        id_(node),
        op_(*ops.Find(node_.op)),
        costs_(costs) {}

  // Seconds of a step that depend on the node's layout.
  double Price(const Layout& layout) {
    double seconds = Acts(node_.rate) * costs_.Compute(graph_, node_, op_, layout);
    for (ValueId value : std::set<ValueId>(node_.inputs.begin(), node_.inputs.end())) {
      const Value& input = graph_.value(value);
      seconds += BoxingPrice(value, facts_.chosen[input.producer].outputs[input.output], layout);
    }
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      seconds += BoxingPrice(node_.outputs[i], layout.outputs[i], layout);
    }
    return seconds;
  }

  // A variable beside the node whose layout differs from what `layout` reads.
  NodeId Moves(const Layout& layout) const {
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const NodeId producer = graph_.value(node_.inputs[i]).producer;
      if (!facts_.Is(graph_.node(producer), OpKind::kVariable) || *graph_.node(producer).placement != *node_.placement)
        continue;
      if (facts_.chosen[producer].outputs[0] != layout.inputs[i]) return producer;
    }
    return -1;
  }

 private:
  double Acts(Rate rate) const { return rate == Rate::kMicroBatch ? facts_.micro_batches : 1; }

  // The price of all types that the readers of `value` want, each paid once, if it is made as `sbp` and the node has
  // the layout `layout`.
  double BoxingPrice(ValueId value, const NdSbp& sbp, const Layout& layout) {
    const Value& it = graph_.value(value);
    const int type = costs_.TypeId(it.type);
    const int from = costs_.DistId({*graph_.node(it.producer).placement, sbp});
    std::set<int> wanted;
    for (NodeId reader : facts_.placed_readers[value]) {
      const Node& node = graph_.node(reader);
      const Layout& lies = reader == id_ ? layout : facts_.chosen[reader];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == value) wanted.insert(costs_.DistId({*node.placement, lies.inputs[i]}));
      }
    }
    const CostModel::Travel travel = TravelOf(graph_, value, facts_.placed_readers);
    double seconds = 0;
    for (int to : wanted) seconds += costs_.Boxing(type, from, to, travel);
    return Acts(ValueRate(graph_, value, *facts_.ops)) * seconds;
  }

  const GraphFacts& facts_;
  const Graph& graph_;
  const Node& node_;
  const NodeId id_;
  const OpDef& op_;
  CostModel& costs_;
};

}  // namespace

std::vector<OtherLayout> OtherLayouts(const GraphFacts& facts, const OpRegistry& ops, NodeId node, CostModel& costs) {
  const Node& it = facts.placed.node(node);
  const OpDef& op = *ops.Find(it.op);
  if (op.kind == OpKind::kVariable || op.kind == OpKind::kAnnotation || !op.mutates.empty()) return {};
  Surroundings around(facts, ops, node, costs);
  const double chosen = around.Price(facts.chosen[node]);
  std::vector<OtherLayout> others;
  for (const Layout& layout : facts.candidates[node]) {
    if (layout == facts.chosen[node]) continue;
    const double seconds = around.Price(layout);
    const bool possible = seconds < CostModel::kImpossible;
    others.push_back(
        {layout, possible ? seconds - chosen : std::numeric_limits<double>::infinity(), around.Moves(layout)});
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const OtherLayout& a, const OtherLayout& b) { return a.seconds < b.seconds; });
  return others;
}

}  // namespace oneflow
