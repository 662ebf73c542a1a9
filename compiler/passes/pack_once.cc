// Where panels of both directions of a weight are needed at the same time, one pass over the weight makes them.
//
// They are needed at once where there are several micro-batches, all of which read both, and where one node reads both,
// as a fused head does. Otherwise the panels of the gradient's direction are made for the gradient: made with the
// others, they would live all through forward, two bytes per packed element when memory is at its peak.
#include <map>
#include <set>

#include "compiler/node_view.h"
#include "compiler/passes/passes.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

class PackJoiner {
 public:
  PackJoiner(Graph& graph, const OpRegistry& ops, int micro_batches)
      : graph_(graph), ops_(ops), micro_batches_(micro_batches), readers_(graph.Consumers()) {}

  // Returns whether it joined anything.
  bool Run() {
    std::vector<bool> keep(graph_.num_nodes(), true);
    std::map<ValueId, NodeId> as_it_lies;  // by weight
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (IsPack(id, false)) as_it_lies.emplace(Weight(id), id);
    }
    bool changed = false;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const auto other = IsPack(id, true) ? as_it_lies.find(Weight(id)) : as_it_lies.end();
      if (other == as_it_lies.end() || !Join(other->second, id)) continue;
      as_it_lies.erase(other);
      keep[id] = false;
      changed = true;
    }
    if (changed) graph_.Rebuild(keep);
    return changed;
  }

 private:
  bool IsPack(NodeId id, bool transposed) const {
    const Node& node = graph_.node(id);
    const bool packs = ops_.Find(node.op)->packs && node.outputs.size() == 1;
    return packs && node.attrs.Bool("transpose") == transposed;
  }
  ValueId Weight(NodeId pack) const { return graph_.node(pack).inputs[0]; }

  // Makes `first` give the result of `second` too, if both belong to the same work and nothing is kept longer. Panels
  // that are whole in both directions on every rank are whole in one pass.
  bool Join(NodeId first, NodeId second) {
    const Node &a = graph_.node(first), &b = graph_.node(second);
    if (a.placement != b.placement || a.rate != b.rate || a.chunk != b.chunk || !a.after.empty() || !b.after.empty()) {
      return false;
    }
    if (micro_batches_ == 1 && !HaveOneReader(a.outputs[0], b.outputs[0])) return false;
    const ValueId transposed = b.outputs[0];
    Node joined = a;
    joined.op = "pack_weight_both_ways";
    joined.attrs = {};
    joined.outputs.push_back(transposed);
    Absorb(b, joined);
    CHECK(TryReplace(graph_, first, joined, ops_)) << joined.name;
    graph_.value(transposed).producer = first;
    graph_.value(transposed).output = 1;
    graph_.node(second).outputs.clear();
    return true;
  }

  bool HaveOneReader(ValueId a, ValueId b) const {
    std::set<NodeId> all(readers_[a].begin(), readers_[a].end());
    all.insert(readers_[b].begin(), readers_[b].end());
    return all.size() == 1;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const int micro_batches_;
  const std::vector<std::vector<NodeId>> readers_;
};

}  // namespace

absl::StatusOr<bool> PackOnce(Graph& graph, PassContext& context) {
  if (context.options.device != DeviceKind::kCpu) return false;
  return PackJoiner(graph, context.ops, context.options.micro_batches).Run();
}

}  // namespace oneflow
