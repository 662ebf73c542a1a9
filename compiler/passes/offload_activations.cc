// That what backward needs of forward lies in a tier of memory (oneflow_core/tiers.h) meanwhile. Forward is cut into
// units, which are full when what backward reads of them has so many bytes. A unit is stored behind it, and loaded
// before backward comes to it:
//
//   forward   0 │ 1 │ 2 │ 3 │ 4 ‖ 4 │ 3 │ 2 │ 1 │ 0   backward
//   stores        0   1   2           2   1   0       loads
//
// With `prefetch` 1, forward of unit 2 begins when 0 is stored, and unit 2 is loaded when backward is done with 4. So
// beside a unit one is on its way. The last 1 + `prefetch` units stay: they would be loaded as soon as they are stored.
// All waits lead from earlier to later nodes of one order, so that no cycle can arise.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/boxed_graph.h"
#include "compiler/passes/passes.h"
#include "compiler/tier_copies.h"
#include "oneflow_core/unique_names.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

class ActivationOffloader {
 public:
  ActivationOffloader(Graph& graph, const PassContext& context, const OffloadOptions& options)
      : graph_(graph),
        ops_(context.ops),
        options_(options),
        num_nodes_(graph.num_nodes()),
        consumers_(graph.Consumers()),
        names_(graph),
        number_(FirstFreeUnit(graph)),
        rate_(context.options.micro_batches == 1 ? Rate::kStep : Rate::kMicroBatch) {}

  // Returns whether anything is stored.
  bool Run() {
    FindWeights();
    FillUnits();
    bool changed = false;
    for (auto& [key, line] : lines_) changed = Offload(line) || changed;
    if (changed) graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
    return changed;
  }

 private:
  struct Unit {
    std::vector<NodeId> nodes;    // of forward
    std::vector<ValueId> values;  // that backward reads
    int64_t bytes = 0;
    std::vector<NodeId> readers;  // of backward, ascending
    std::vector<ValueId> stored;
  };
  using Line = std::vector<Unit>;             // in order
  using LineKey = std::pair<Placement, int>;  // on these ranks, of this chunk of the model

  // Values that depend on variables alone are there anyway, or are made again from what is.
  void FindWeights() {
    of_weights_.assign(num_nodes_, false);
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& node = graph_.node(id);
      of_weights_[id] =
          ops_.Is(node.op, OpKind::kVariable) ||
          (!node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
            return of_weights_[graph_.value(input).producer];
          }));
    }
  }

  bool Computes(NodeId id) const {
    const OpKind kind = ops_.KindOf(graph_.node(id).op);
    return (kind == OpKind::kCompute || kind == OpKind::kCast) && !of_weights_[id];
  }

  std::vector<NodeId> BackwardReaders(ValueId value) const {
    std::vector<NodeId> readers;
    for (const NodeId id : consumers_[value]) {
      const bool here =
          graph_.node(id).rate == rate_ && graph_.node(id).placement == graph_.value(value).dist->placement;
      if (IsBackward(graph_.node(id)) && (Computes(id) || ops_.Is(graph_.node(id).op, OpKind::kBoxing)) && here) {
        readers.push_back(id);
      }
    }
    return readers;
  }

  void FillUnits() {
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& node = graph_.node(id);
      const bool boxes = ops_.Is(node.op, OpKind::kBoxing) && !of_weights_[id];
      if (!IsForward(node) || node.rate != rate_ || !(Computes(id) || boxes)) continue;
      Line& line = lines_[{*node.placement, node.chunk}];
      if (line.empty() || line.back().bytes >= options_.unit_bytes) line.emplace_back();
      Unit& unit = line.back();
      if (!boxes) unit.nodes.push_back(id);
      for (const ValueId value : node.outputs) {
        const Value& of = graph_.value(value);
        const int64_t bytes = ShardBytes(of.type, *of.dist);
        const std::vector<NodeId> readers = BackwardReaders(value);
        if (bytes == 0 || bytes < options_.least_bytes || readers.empty() || of.type.is_ragged()) continue;
        unit.values.push_back(value);
        unit.bytes += bytes;
        unit.readers.insert(unit.readers.end(), readers.begin(), readers.end());
      }
    }
    for (auto& [key, line] : lines_) {
      for (Unit& unit : line) std::sort(unit.readers.begin(), unit.readers.end());
    }
  }

  bool Offload(Line& line) {
    const int ahead = 1 + options_.prefetch, stays = static_cast<int>(line.size()) - ahead;
    if (stays <= 0) return false;
    Number(line);
    for (int u = 0; u < stays; ++u) Store(line[u]);
    for (size_t u = 0; u < line.size(); ++u) {
      const int before = static_cast<int>(u) - ahead;
      if (before >= 0 && before < stays) Wait(line[u], line[before].stored);
    }
    for (int u = stays - 1; u >= 0; --u) Load(line, u, ahead);
    return true;
  }

  // Nodes of a unit make chains of their own, of forward and, from the first reader on, of backward.
  void Number(const Line& line) {
    std::map<NodeId, int> begins;  // of backward: by the first reader
    for (const Unit& unit : line) {
      for (const NodeId id : unit.nodes) graph_.node(id).unit = number_;
      ++number_;
      if (!unit.readers.empty()) begins[unit.readers.front()] = number_++;
    }
    if (begins.empty()) return;
    const Node& first = graph_.node(begins.begin()->first);
    for (NodeId id = begins.begin()->first; id < num_nodes_; ++id) {
      Node& node = graph_.node(id);
      if (!IsBackward(node) || !Computes(id) || node.placement != first.placement || node.chunk != first.chunk)
        continue;
      if (node.rate == rate_) node.unit = std::prev(begins.upper_bound(id))->second;
    }
  }

  void Store(Unit& unit) {
    for (const ValueId value : unit.values) {
      Node like = graph_.node(graph_.value(value).producer);
      if (!unit.nodes.empty()) like.unit = graph_.node(unit.nodes.front()).unit;
      unit.stored.push_back(
          AddTierCopy(graph_, TierCopy::kStore, *options_.tier, {value}, NameFor(value, "/stored"), like));
    }
  }

  // Forward of the unit begins when all these are there.
  void Wait(const Unit& unit, const std::vector<ValueId>& stored) {
    const std::set<NodeId> here(unit.nodes.begin(), unit.nodes.end());
    for (const NodeId id : unit.nodes) {
      const std::vector<ValueId>& inputs = graph_.node(id).inputs;
      const bool follows = std::any_of(inputs.begin(), inputs.end(),
                                       [&](ValueId input) { return here.count(graph_.value(input).producer) > 0; });
      if (!follows) graph_.node(id).after.insert(graph_.node(id).after.end(), stored.begin(), stored.end());
    }
  }

  void Load(const Line& line, int number, int ahead) {
    const Unit& unit = line[number];
    if (unit.readers.empty()) return;
    const NodeId first = unit.readers.front();
    const std::vector<ValueId> after = LastBefore(line, number + ahead, first);
    Node like = graph_.node(first);
    like.role = Role::kRecompute;  // for backward to read
    for (size_t i = 0; i < unit.values.size(); ++i) {
      const ValueId value = unit.values[i];
      like.forward = graph_.value(value).producer;
      const ValueId loaded =
          AddTierCopy(graph_, TierCopy::kLoad, *options_.tier, {unit.stored[i]}, NameFor(value, "/loaded"), like);
      graph_.node(graph_.value(loaded).producer).after = after;
      for (const NodeId reader : BackwardReaders(value)) {
        std::vector<ValueId>& inputs = graph_.node(reader).inputs;
        std::replace(inputs.begin(), inputs.end(), value, loaded);
      }
    }
  }

  // What the last node made that reads the unit, or one behind it, before `reader` is computed.
  std::vector<ValueId> LastBefore(const Line& line, int unit, NodeId reader) const {
    NodeId last = -1;
    for (size_t u = static_cast<size_t>(unit); u < line.size(); ++u) {
      for (const NodeId id : line[u].readers) {
        if (id < reader && Computes(id) && !SumsMicroBatches(graph_.node(id), ops_)) last = std::max(last, id);
      }
    }
    if (last < 0) return {};
    return {graph_.node(last).outputs[0]};
  }

  std::string NameFor(ValueId value, const char* what) {
    return names_.Make(absl::StrCat(graph_.node(graph_.value(value).producer).name, what));
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const OffloadOptions& options_;
  const int num_nodes_;  // before any copy was added
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<bool> of_weights_;
  UniqueNames names_;
  int number_;       // of the next unit
  const Rate rate_;  // of forward and backward
  std::map<LineKey, Line> lines_;
};

}  // namespace

absl::StatusOr<bool> OffloadActivations(Graph& graph, PassContext& context) {
  const OffloadOptions* const options = OffloadOf(context.options, OffloadOptions::What::kActivations);
  if (options == nullptr || !graph.is_trained()) return false;
  if (ActivationOffloader(graph, context, *options).Run()) return true;
  context.warnings.push_back(
      absl::StrCat("graph '", graph.name(), "': offload of activations changes nothing: forward ", "has no more than ",
                   1 + options->prefetch, " units of ", options->unit_bytes, " bytes, which stay"));
  return false;
}

}  // namespace oneflow
