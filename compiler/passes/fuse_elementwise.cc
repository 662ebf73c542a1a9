// Fuses elementwise ops that read one another, and that no pattern names, into `elementwise`
// (oneflow_core/elementwise.h).
//
// Nodes are taken in order. Each begins a group and joins the groups of the nodes whose results it reads, on three
// conditions: all do the same work on values that lie alike; reads, results and calls stay within the limits of one
// kernel; and no path leads from one group to the other through a third, since neither could then come first. Values of
// a group that others read are its outputs. Nodes that are far apart in the order stay apart: nodes between them would
// have to wait for the whole, and inputs of the whole would have to be kept until then.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/passes/passes.h"
#include "oneflow_core/elementwise.h"

namespace oneflow {
namespace {

// The most nodes between two that become one.
constexpr int kMostBetween = 16;
// The limit of the search for a path from one group to another; anything farther away is no neighbour.
constexpr size_t kMostVisited = 1000;

class ElementwiseFuser {
 public:
  ElementwiseFuser(Graph& graph, const OpRegistry& ops)
      : graph_(graph), ops_(ops), waiters_(graph.Consumers()), group_of_(graph.num_nodes()) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      group_of_[id] = id;
      for (const ValueId value : graph.node(id).after) {
        waiters_[value].push_back(id);
        waited_for_.insert(value);
      }
    }
    waited_for_.insert(graph.losses.begin(), graph.losses.end());
  }

  bool Run() {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (MayBePart(id)) Join(id);
    }
    bool changed = false;
    for (const auto& [group, nodes] : groups_) {
      if (nodes.size() < 2) continue;
      Apply(nodes);
      changed = true;
    }
    if (changed) Sweep();
    return changed;
  }

 private:
  // An elementwise op on floats without partial values, whose inputs each lie as the output does or are scalars that
  // every rank has.
  bool MayBePart(NodeId id) const {
    const Node& node = graph_.node(id);
    const OpDef& op = *ops_.Find(node.op);
    if (!op.is_elementwise || !node.after.empty()) return false;
    if (IsNarrow(graph_.value(node.inputs[0]).type.dtype) && !ComputesNarrow(op)) return false;
    const Value& out = graph_.value(node.outputs[0]);
    if (!IsFloating(out.type.dtype) || HasPartial(out)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      const Value& in = graph_.value(input);
      if (!IsFloating(in.type.dtype) || HasPartial(in) || in.dist->placement != out.dist->placement) return false;
      if (in.type.shape.rank() == 0) return !in.type.is_ragged();
      return in.type.shape == out.type.shape && in.type.ragged == out.type.ragged && in.dist->sbp == out.dist->sbp;
    });
  }
  static bool HasPartial(const Value& value) {
    return std::any_of(value.dist->sbp.begin(), value.dist->sbp.end(), [](const Sbp& sbp) { return sbp.is_partial(); });
  }

  // Of one act and one part of a step, near one another, on values that lie alike.
  bool SameWork(NodeId a_id, NodeId b_id) const {
    const Node &a = graph_.node(a_id), &b = graph_.node(b_id);
    const Value &of_a = graph_.value(a.outputs[0]), &of_b = graph_.value(b.outputs[0]);
    return std::abs(b_id - a_id) <= kMostBetween && a.role == b.role && a.rate == b.rate && a.chunk == b.chunk &&
           of_a.type.shape == of_b.type.shape && of_a.type.ragged == of_b.type.ragged && of_a.dist == of_b.dist;
  }

  void Join(NodeId id) {
    groups_[id] = {id};
    std::set<NodeId> others;
    for (const ValueId input : graph_.node(id).inputs) others.insert(group_of_[graph_.value(input).producer]);
    for (const NodeId other : others) {
      const NodeId own = group_of_[id];
      if (groups_.count(other) == 0 || !MayMerge(other, own)) continue;
      std::vector<NodeId> merged;
      std::merge(groups_[other].begin(), groups_[other].end(), groups_[own].begin(), groups_[own].end(),
                 std::back_inserter(merged));
      for (const NodeId node : merged) group_of_[node] = other;
      groups_.erase(own);
      groups_[other] = std::move(merged);
    }
  }

  bool MayMerge(NodeId a, NodeId b) const {
    const std::vector<NodeId>&of_a = groups_.at(a), &of_b = groups_.at(b);
    if (!SameWork(of_a.back(), of_b.back())) return false;
    std::vector<NodeId> both = of_a;
    both.insert(both.end(), of_b.begin(), of_b.end());
    return Fits(Programmed(std::move(both))) && !LeadsAround(a, b) && !LeadsAround(b, a);
  }

  // Whether a path leads from group `from` to group `to` through nodes of others.
  bool LeadsAround(NodeId from, NodeId to) const {
    std::vector<NodeId> next;  // groups whose readers are not examined yet
    std::set<NodeId> seen = {from};
    const auto visit = [&](NodeId group, bool around) {
      for (const NodeId node : Nodes(group)) {
        for (const ValueId value : graph_.node(node).outputs) {
          for (const NodeId reader : waiters_[value]) {
            const NodeId read_in = group_of_[reader];
            if (read_in == to && around) return true;
            if (read_in != to && seen.insert(read_in).second) next.push_back(read_in);
          }
        }
      }
      return false;
    };
    visit(from, /*around=*/false);
    const NodeId last = std::max(Nodes(from).back(), Nodes(to).back());
    while (!next.empty()) {
      const NodeId group = next.back();
      next.pop_back();
      if (group > last && groups_.count(group) == 0) continue;  // it reads, but nothing that was looked at reads it
      if (seen.size() > kMostVisited || visit(group, /*around=*/true)) return true;
    }
    return false;
  }

  // The nodes of a group, or the node itself if it is in none.
  std::vector<NodeId> Nodes(NodeId group) const {
    const auto it = groups_.find(group);
    return it == groups_.end() ? std::vector<NodeId>{group} : it->second;
  }

  // The computation of some nodes as one.
  struct Whole {
    ElementwiseProgram program;
    std::vector<ValueId> inputs, outputs;
    size_t reads = 0;
  };

  // `nodes` in any order.
  Whole Programmed(std::vector<NodeId> nodes) const {
    std::sort(nodes.begin(), nodes.end());
    const std::set<NodeId> own(nodes.begin(), nodes.end());
    Whole whole;
    std::map<ValueId, ElementwiseValue> names;
    for (const NodeId id : nodes) {
      const Node& node = graph_.node(id);
      ElementwiseCall call{node.op, node.attrs, {}, {}};
      for (const ValueId input : node.inputs) {
        const auto [it, is_new] = names.try_emplace(input);
        if (is_new) {
          it->second = {ElementwiseValue::Kind::kInput, static_cast<int>(whole.inputs.size())};
          whole.inputs.push_back(input);
        }
        call.in.push_back(it->second);
      }
      const ValueId output = node.outputs[0];
      if (IsReadOutside(output, own)) {
        call.out = {ElementwiseValue::Kind::kOutput, static_cast<int>(whole.outputs.size())};
        whole.outputs.push_back(output);
      } else {
        call.out = {ElementwiseValue::Kind::kTemporary, whole.program.temporaries++};
      }
      names[output] = call.out;
      whole.reads += call.in.size();
      whole.program.calls.push_back(std::move(call));
    }
    whole.program.inputs = static_cast<int>(whole.inputs.size());
    whole.program.outputs = static_cast<int>(whole.outputs.size());
    return whole;
  }

  // A value without readers counts as well: the graph may keep it.
  bool IsReadOutside(ValueId value, const std::set<NodeId>& own) const {
    const std::vector<NodeId>& readers = waiters_[value];
    return readers.empty() || waited_for_.count(value) > 0 ||
           std::any_of(readers.begin(), readers.end(), [&](NodeId reader) { return own.count(reader) == 0; });
  }

  static bool Fits(const Whole& whole) {
    return whole.program.calls.size() <= kMostElementwiseCalls && whole.reads <= kMostElementwiseReads &&
           whole.program.inputs <= kMostElementwiseInputs && whole.program.outputs <= kMostElementwiseOutputs;
  }

  // The last node becomes the whole; the others give and read nothing any more.
  void Apply(const std::vector<NodeId>& nodes) {
    Whole whole = Programmed(nodes);
    Node& last = graph_.node(nodes.back());
    for (const NodeId id : nodes) {
      Node& node = graph_.node(id);
      if (node.forward != last.forward) last.forward = -1;
      if (node.variable != last.variable) last.variable = -1;
      if (node.segment != last.segment) last.segment = -1;
      if (id != nodes.back()) Absorb(node, last);
      node.inputs.clear();
      node.outputs.clear();
      whole_of_[id] = nodes.back();
    }
    last.op = "elementwise";
    last.attrs = {{"made_of", ToString(whole.program)}};
    last.inputs = std::move(whole.inputs);
    last.outputs = std::move(whole.outputs);
    for (size_t i = 0; i < last.outputs.size(); ++i) {
      graph_.value(last.outputs[i]).producer = nodes.back();
      graph_.value(last.outputs[i]).output = static_cast<int>(i);
    }
  }

  // Removes the nodes that wholes replace.
  void Sweep() {
    std::vector<bool> keep(graph_.num_nodes(), true);
    for (const auto& [part, whole] : whole_of_) keep[part] = part == whole;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const auto whole = whole_of_.find(graph_.node(id).forward);
      if (whole != whole_of_.end()) graph_.node(id).forward = whole->second;
    }
    graph_.Rebuild(keep);
  }

  Graph& graph_;
  const OpRegistry& ops_;
  std::vector<std::vector<NodeId>> waiters_;      // by value: its readers, and nodes that come after it
  std::set<ValueId> waited_for_;                  // needed without being read
  std::vector<NodeId> group_of_;                  // by node: the first node of its group, or itself
  std::map<NodeId, std::vector<NodeId>> groups_;  // ascending, of nodes that may be parts
  std::map<NodeId, NodeId> whole_of_;             // by part, the last one included
};

}  // namespace

absl::StatusOr<bool> FuseElementwise(Graph& graph, PassContext& context) {
  if (!context.options.fuse) return false;
  return ElementwiseFuser(graph, context.ops).Run();
}

}  // namespace oneflow
