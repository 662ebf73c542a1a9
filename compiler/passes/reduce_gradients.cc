// That gradients which are reduced to parts do not stay whole. Those made one after the other are a unit, until it is
// full, and travel together. Backward does not begin with unit k before unit k-kAhead has been reduced:
//
//   backward      unit 0 │ unit 1 │ unit 2 │ unit 3 │ ...
//   reductions           ▼ 0      ▼ 1      ▼ 2
//                          └──────────► unit 2 waits for 0, unit 3 for 1
//
// So whoever sees results of unit k of all ranks knows that they have reduced unit k-kAhead: nobody reads its gradients
// any more, and their memory is free (plan/lifetimes.h). The first units wait for the last ones of the micro-batch
// before. All waits lead from earlier to later nodes of one order, so that no cycle can arise.
//
// In a pipeline the schedule says how far ranks are ahead: it is left as it is.
#include <algorithm>
#include <map>

#include "compiler/passes/passes.h"
#include "compiler/tier_copies.h"
#include "compiler/zero.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

constexpr int kAhead = 2;  // one that is being reduced, beside one that is being made

class GradientReducer {
 public:
  GradientReducer(Graph& graph, const PassContext& context, std::set<std::string> axes)
      : graph_(graph), context_(context), ops_(context.ops), axes_(std::move(axes)) {}

  // Returns whether anything is reduced so.
  bool Run() {
    FillUnits();
    if (lines_.empty()) return false;
    int number = FirstFreeUnit(graph_);
    for (const auto& [on, line] : lines_) {
      for (const Unit& unit : line) {
        for (const NodeId boxing : unit.boxings) graph_.node(boxing).unit = number;
        ++number;
      }
      Wait(line);
    }
    graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
    return true;
  }

 private:
  struct Unit {
    std::vector<NodeId> makers, boxings;
    int64_t bytes = 0;
  };
  using Line = std::vector<Unit>;  // on the same ranks, in order

  NodeId MakerOf(NodeId id) const {
    const NodeId maker = graph_.value(graph_.node(id).inputs[0]).producer;
    return ops_.Is(graph_.node(maker).op, OpKind::kBoxing) ? MakerOf(maker) : maker;
  }

  // Whether the boxing makes parts of addends along the axes.
  bool Reduces(const Node& node) const {
    if (!ops_.Is(node.op, OpKind::kBoxing) || !IsBackward(node)) return false;
    const DistType &from = *graph_.value(node.inputs[0]).dist, &to = *graph_.value(node.outputs[0]).dist;
    if (from.placement != to.placement) return false;
    const std::vector<Axis>& axes = from.placement.axes();
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes_.count(axes[i].name) > 0 && from.sbp[i].is_partial() && to.sbp[i].is_split()) return true;
    }
    return false;
  }

  // In the order in which gradients are made.
  void FillUnits() {
    std::vector<std::pair<NodeId, NodeId>> reductions;  // of what, by which boxing
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (!Reduces(graph_.node(id))) continue;
      const NodeId maker = MakerOf(id);
      if (IsBackward(graph_.node(maker))) reductions.emplace_back(maker, id);
    }
    std::sort(reductions.begin(), reductions.end());
    for (const auto& [maker, boxing] : reductions) {
      Line& line = lines_[*graph_.node(maker).placement];
      const bool is_other = !line.empty() && line.back().makers.back() != maker;
      if (line.empty() || (is_other && IsFull(line.back()))) line.emplace_back();
      Unit& unit = line.back();
      unit.makers.push_back(maker);
      unit.boxings.push_back(boxing);
      const Value& gradient = graph_.value(graph_.node(boxing).inputs[0]);
      unit.bytes += ShardBytes(gradient.type, *gradient.dist);
    }
  }

  bool IsFull(const Unit& unit) const {
    const Placement& on = *graph_.node(unit.makers.front()).placement;
    const int64_t full = UnitBytes(*context_.options.zero, on, context_.topology);
    return full > 0 && unit.bytes >= full;
  }

  void Wait(const Line& line) {
    const int units = static_cast<int>(line.size());
    for (int unit = kAhead; unit < units; ++unit) {
      Wait(BeginOf(line[unit], line[unit - 1].makers.back()), line[unit - kAhead], &Node::after);
    }
    for (int unit = 0; unit < kAhead && context_.options.micro_batches > 1; ++unit) {
      const int before = units + unit - kAhead;
      if (before < unit) continue;
      Wait(BeginOf(line[unit], unit == 0 ? -1 : line[unit - 1].makers.back()), line[before], &Node::after_last);
    }
  }

  void Wait(const std::vector<NodeId>& nodes, const Unit& unit, std::vector<ValueId> Node::*list) {
    for (const NodeId id : nodes) {
      for (const NodeId boxing : unit.boxings) (graph_.node(id).*list).push_back(graph_.node(boxing).outputs[0]);
    }
  }

  // The nodes that make gradients of the unit, and the first of backward behind the unit before from which more follow.
  std::vector<NodeId> BeginOf(const Unit& unit, NodeId last_before) const {
    std::vector<NodeId> begin = unit.makers;
    const Node& like = graph_.node(unit.makers.front());
    for (NodeId id = last_before + 1; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      const bool leads = node.role == Role::kInputGradient || node.role == Role::kFusedGradient;
      const bool computes = ops_.Is(node.op, OpKind::kCompute) && leads;
      if (!computes || node.placement != like.placement || node.rate != like.rate) continue;
      begin.push_back(id);
      break;
    }
    std::sort(begin.begin(), begin.end());
    begin.erase(std::unique(begin.begin(), begin.end()), begin.end());
    return begin;
  }

  Graph& graph_;
  const PassContext& context_;
  const OpRegistry& ops_;
  const std::set<std::string> axes_;
  std::map<Placement, Line> lines_;
};

}  // namespace

absl::StatusOr<bool> ReduceGradients(Graph& graph, PassContext& context) {
  if (!context.options.zero.has_value() || context.options.zero->stage < 2 || !graph.is_trained()) return false;
  if (context.options.zero->sums_once && context.options.micro_batches > 1) return false;  // they stay whole
  if (context.options.MeshOf(graph.name()).num_stages() > 1) return false;                 // its schedule has the order
  const std::set<std::string> axes = ZeroAxes(context.options, graph);
  return !axes.empty() && GradientReducer(graph, context, axes).Run();
}

}  // namespace oneflow
