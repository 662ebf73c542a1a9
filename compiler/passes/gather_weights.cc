// When weights that lie split, or in a tier of memory, are gathered. A weight is a value that depends on variables
// alone; it is gathered behind a boxing that removes a split along the axes of options.zero, or loaded from the tier. A
// step reads gathered weights in an order: forward, then backward. Those read one after the other are a unit, until it
// is full:
//
//   order    q k v o │ up down │ q k v o │ ... │ head ‖ head │ ... │ down up │ o v k q
//   unit        0    │    1    │    2    │                           n-2     │  n-1
//
// Each unit has boxings of its own, and clones of what follows them, so that forward and backward gather by themselves.
// Boxings of unit k wait until the readers of unit k-1-prefetch are done, the first units for those of the micro-batch
// before. So at most 1+prefetch units are there. Within a micro-batch these waits lead from earlier to later nodes of
// one order, so that no cycle can arise. Micro-batches of a pipeline overtake one another: there forward and backward
// of every chunk have units of their own.
//
// A segment that backward computes again is one unit there, however large, so that what it gathers serves its gradients
// too.
//
// The update of a weight that backward has just loaded from a tier overwrites and stores that copy, if its gradient
// comes with the copy's unit or the next, instead of loading the weight once more. Not where other ranks read the copy:
// they do not say when they have.
//
// It runs last, when what reads weights is fused as it will be.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/passes/passes.h"
#include "compiler/tier_copies.h"
#include "compiler/zero.h"
#include "oneflow_core/unique_names.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

class WeightGatherer {
 public:
  WeightGatherer(Graph& graph, const PassContext& context, const ZeroOptions& zero, std::set<std::string> axes)
      : graph_(graph),
        ops_(context.ops),
        topology_(context.topology),
        zero_(zero),
        what_(context.options.recompute.what),
        axes_(std::move(axes)),
        num_nodes_(graph.num_nodes()),
        gathered_(graph.num_nodes(), false),
        used_(graph.num_nodes(), false),
        num_units_(FirstFreeUnit(graph)),
        names_(graph) {
    const bool one_rate = !graph.is_trained() || context.options.micro_batches == 1;
    rate_ = one_rate ? Rate::kStep : Rate::kMicroBatch;
    is_pipeline_ = context.options.MeshOf(graph.name()).num_stages() > 1;
  }

  // Returns whether anything is gathered.
  bool Run() {
    FindGathered();
    if (std::find(gathered_.begin(), gathered_.end(), true) == gathered_.end()) return false;
    consumers_ = graph_.Consumers();
    KeepForUpdates();
    for (NodeId id = 0; id < num_nodes_; ++id) {
      if (!gathered_[id] && !IsUpdate(graph_.node(id))) Read(id);
    }
    for (auto& [key, line] : lines_) CloseRing(line);
    ShareWithUpdates();
    DropUnused();
    return true;
  }

 private:
  // Readers one after the other, and what they read.
  struct Unit {
    int number = 0;
    std::vector<ValueId> after;
    std::map<ValueId, ValueId> copies;  // by value as it was: of this unit
    std::vector<NodeId> readers, boxings;
    int64_t bytes = 0;
  };
  // Units that follow one another, those that are over. Of each, what its readers made, and its boxings.
  struct Line {
    std::optional<StepPart> part;
    int segment = -1;  // that the last reader computed again, or made gradients of
    Unit unit;
    std::vector<std::vector<ValueId>> ends;
    std::vector<std::vector<NodeId>> boxings;
    std::vector<NodeId> last_readers;
  };
  // The last copy of a weight that backward loads from a tier: of this unit of the line.
  struct LastLoad {
    ValueId copy = -1;
    const Line* line = nullptr;
    size_t unit = 0;
  };
  using LineKey = std::tuple<Placement, int, int>;  // on which ranks, of which chunk, of which part of the step

  NodeId MakerOf(ValueId value) const { return graph_.value(value).producer; }
  bool IsGathered(ValueId value) const { return MakerOf(value) < num_nodes_ && gathered_[MakerOf(value)]; }

  // Whether it loads a weight for any reader; what an update overwrites is loaded for that alone, with its unit.
  bool Loads(NodeId id) const { return ops_.Is(graph_.node(id).op, OpKind::kLoad) && graph_.node(id).unit < 0; }

  // Whether the boxing removes a split.
  bool Gathers(const Node& boxing) const {
    if (axes_.empty()) return false;
    const DistType &from = *graph_.value(boxing.inputs[0]).dist, &to = *graph_.value(boxing.outputs[0]).dist;
    const auto is_split = [](const DistType& dist, const std::string& name) {
      const std::vector<Axis>& axes = dist.placement.axes();
      for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i].name == name) return dist.sbp[i].is_split();
      }
      return false;
    };
    return std::any_of(axes_.begin(), axes_.end(),
                       [&](const std::string& axis) { return is_split(from, axis) && !is_split(to, axis); });
  }

  // Nodes that may be run more than once, from variables alone, with what gathers before them or in them.
  void FindGathered() {
    std::vector<bool> of_weights(num_nodes_, false);
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& node = graph_.node(id);
      const OpDef& op = *ops_.Find(node.op);
      if (op.kind == OpKind::kVariable) of_weights[id] = true;
      const bool repeats =
          op.kind == OpKind::kCompute || op.kind == OpKind::kCast || op.kind == OpKind::kBoxing || Loads(id);
      if (!repeats || op.has_effect || op.random || !op.mutates.empty() || IsUpdate(node)) continue;
      of_weights[id] = std::all_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId input) { return of_weights[MakerOf(input)]; });
      if (!of_weights[id]) continue;
      gathered_[id] =
          Loads(id) || (op.kind == OpKind::kBoxing && Gathers(node)) ||
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return gathered_[MakerOf(input)]; });
    }
  }

  // Updates read a weight once a step; they keep what is there.
  void KeepForUpdates() {
    for (NodeId id = num_nodes_ - 1; id >= 0; --id) {
      const bool is_reader = IsUpdate(graph_.node(id)) || (gathered_[id] && used_[id]);
      if (!is_reader) continue;
      for (const ValueId input : graph_.node(id).inputs) used_[MakerOf(input)] = true;
    }
  }

  void Read(NodeId reader) {
    const std::vector<ValueId> inputs = graph_.node(reader).inputs;
    if (std::none_of(inputs.begin(), inputs.end(), [&](ValueId input) { return IsGathered(input); })) return;
    const StepPart part = PartOf(graph_.node(reader).role);
    const Node& node = graph_.node(reader);
    Line& line = lines_[{*node.placement, is_pipeline_ ? node.chunk : -1, is_pipeline_ ? static_cast<int>(part) : -1}];
    const auto is_there = [&](ValueId input) {
      return !IsGathered(input) || line.unit.copies.count(input) > 0 || kept_.count(input) > 0;
    };
    const bool has_all = std::all_of(inputs.begin(), inputs.end(), is_there);
    const int segment = SegmentComputedAgain(node);
    const bool is_within = segment >= 0 && segment == line.segment;
    if (line.part != part || (!has_all && !is_within && IsFull(line.unit))) Begin(part, line);
    line.segment = segment;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (IsGathered(inputs[i])) graph_.node(reader).inputs[i] = CopyFor(inputs[i], reader, line);
    }
    line.unit.readers.push_back(reader);
  }

  // Of a node of backward: the segment that it serves, if that is computed again; -1: none.
  int SegmentComputedAgain(const Node& node) const {
    if (what_.empty() || !IsBackward(node) || node.forward < 0) return -1;
    return graph_.SegmentOfKind(graph_.node(node.forward).segment, what_);
  }

  bool IsFull(const Unit& unit) const {
    if (unit.copies.empty()) return false;
    const int64_t full = UnitBytes(zero_, *graph_.node(unit.readers.front()).placement, topology_);
    return full > 0 && unit.bytes >= full;
  }

  void Begin(StepPart part, Line& line) {
    if (line.part.has_value()) End(line);
    line.part = part;
    line.unit = {.number = num_units_++};
    const int before = static_cast<int>(line.ends.size()) - 1 - zero_.prefetch;
    if (before >= 0) line.unit.after = line.ends[before];
  }

  void End(Line& line) const {
    line.ends.push_back(EndsOf(line.unit));
    line.last_readers.push_back(line.unit.readers.empty() ? -1 : line.unit.readers.back());
    line.boxings.push_back(std::move(line.unit.boxings));
  }

  // The first units wait for the last ones of the micro-batch before.
  void CloseRing(Line& line) {
    End(line);
    const int units = static_cast<int>(line.ends.size());
    for (int unit = 0; unit < std::min(units, 1 + zero_.prefetch); ++unit) {
      const int before = units + unit - 1 - zero_.prefetch;
      if (before < unit) continue;  // there are no more units than may be there
      for (const NodeId boxing : line.boxings[unit]) graph_.node(boxing).after_last = line.ends[before];
    }
  }

  // What readers of a unit made that no other reader of it follows.
  std::vector<ValueId> EndsOf(const Unit& unit) const {
    std::vector<ValueId> ends;
    if (unit.readers.empty()) return ends;
    const NodeId first = unit.readers.front(), last = unit.readers.back();
    std::vector<bool> is_reader(last - first + 1, false), is_followed(last - first + 1, false);
    for (const NodeId reader : unit.readers) is_reader[reader - first] = true;
    for (NodeId id = last; id >= first; --id) {
      for (const ValueId output : graph_.node(id).outputs) {
        for (const NodeId next : consumers_[output]) {
          if (next <= last && (is_reader[next - first] || is_followed[next - first])) is_followed[id - first] = true;
        }
      }
      const bool is_end = is_reader[id - first] && !is_followed[id - first];
      // What is added up over micro-batches is there at the end of the step.
      if (!is_end || graph_.node(id).outputs.empty() || SumsMicroBatches(graph_.node(id), ops_)) continue;
      ends.push_back(graph_.node(id).outputs[0]);
    }
    return ends;
  }

  ValueId CopyFor(ValueId value, NodeId reader, Line& line) {
    if (const auto kept = kept_.find(value); kept != kept_.end()) return kept->second;
    const ValueId copy = Copy(value, reader, line);
    if (zero_.keeps_gathered && IsForward(graph_.node(reader))) kept_[value] = copy;
    return copy;
  }

  // The value as this unit has it: its maker itself for the first unit that reads it, clones for all others.
  ValueId Copy(ValueId value, NodeId reader, Line& line) {
    Unit& unit = line.unit;
    if (!IsGathered(value)) return value;
    if (const auto known = unit.copies.find(value); known != unit.copies.end()) return known->second;
    const NodeId maker = MakerOf(value);
    std::vector<ValueId> inputs;
    for (const ValueId input : graph_.node(maker).inputs) inputs.push_back(Copy(input, reader, line));
    const std::vector<ValueId> outputs = graph_.node(maker).outputs;
    const NodeId copy = used_[maker] ? Clone(maker, reader) : maker;
    used_[maker] = true;
    Node& node = graph_.node(copy);
    node.inputs = std::move(inputs);
    node.rate = rate_;
    if (ops_.Is(node.op, OpKind::kBoxing) || ops_.Is(node.op, OpKind::kLoad)) {
      node.unit = unit.number;
      if (!IsGathered(graph_.node(maker).inputs[0])) {
        node.after = unit.after;
        unit.boxings.push_back(copy);
      }
      unit.bytes += ShardBytes(graph_.value(node.outputs[0]).type, *graph_.value(node.outputs[0]).dist);
      if (ops_.Is(node.op, OpKind::kLoad) && IsBackward(graph_.node(reader))) {
        last_loads_[node.inputs[0]] = {node.outputs[0], &line, line.ends.size()};
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) unit.copies[outputs[i]] = node.outputs[i];
    return unit.copies.at(value);
  }

  NodeId Clone(NodeId maker, NodeId reader) {
    Node node = graph_.node(maker);
    node.name = names_.Make(absl::StrCat(node.name, "/again"));
    node.after.clear();
    node.chunk = graph_.node(reader).chunk;
    if (IsBackward(graph_.node(reader))) {
      node.role = Role::kRecompute;
      node.forward = IsForward(graph_.node(maker)) ? maker : graph_.node(maker).forward;
      node.segment = -1;
    }
    const std::vector<ValueId> outputs = node.outputs;
    std::vector<TensorType> types;
    for (const ValueId output : outputs) types.push_back(graph_.value(output).type);
    const NodeId clone = graph_.AddNode(std::move(node), types);
    for (size_t i = 0; i < outputs.size(); ++i) {
      Value& to = graph_.value(graph_.node(clone).outputs[i]);
      to.dist = graph_.value(outputs[i]).dist;
      to.layout = graph_.value(outputs[i]).layout;
    }
    return clone;
  }

  // What an update overwrites was loaded with its unit. Backward's copy is read before that by the order of what is
  // overwritten (plan/precedence.h).
  void ShareWithUpdates() {
    if (is_pipeline_ || rate_ != Rate::kStep) return;  // else there is a copy for each micro-batch
    const std::vector<std::vector<NodeId>> consumers = graph_.Consumers();
    const auto is_boxed = [&](ValueId value) {
      return std::any_of(consumers[value].begin(), consumers[value].end(),
                         [&](NodeId reader) { return ops_.Is(graph_.node(reader).op, OpKind::kBoxing); });
    };
    std::map<ValueId, ValueId> shared;              // by value as it was
    std::vector<NodeId> waits_for(num_nodes_, -1);  // the last node of backward, by update
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& node = graph_.node(id);
      if (!IsUpdate(node)) continue;
      for (const ValueId input : node.inputs) {
        const NodeId maker = MakerOf(input);
        if (maker >= num_nodes_) continue;  // a copy
        const bool is_update = IsUpdate(graph_.node(maker));
        if (is_update || IsBackward(graph_.node(maker))) {
          waits_for[id] = std::max(waits_for[id], is_update ? waits_for[maker] : maker);
        }
      }
      for (const int index : ops_.Find(node.op)->mutates) {
        const NodeId maker = MakerOf(node.inputs[index]);
        if (maker >= num_nodes_ || !ops_.Is(graph_.node(maker).op, OpKind::kLoad)) continue;
        const auto last = last_loads_.find(graph_.node(maker).inputs[0]);
        if (waits_for[id] < 0 || last == last_loads_.end() || is_boxed(last->second.copy)) continue;
        if (!IsSoon(waits_for[id], last->second, consumers[last->second.copy])) continue;
        shared[node.inputs[index]] = last->second.copy;
        gathered_[maker] = true;  // and not used: it is dropped
        used_[maker] = false;
      }
    }
    if (shared.empty()) return;
    const auto replace = [&](std::vector<ValueId>& values) {
      for (ValueId& value : values) {
        if (const auto it = shared.find(value); it != shared.end()) value = it->second;
      }
    };
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      Node& node = graph_.node(id);
      replace(node.inputs);
      replace(node.after);
      replace(node.after_last);
    }
  }

  // Whether the node comes with the copy's unit or the next, or beside a reader of the copy, such as the gradient of a
  // weight beside that of what it was multiplied with.
  bool IsSoon(NodeId node, const LastLoad& load, const std::vector<NodeId>& readers) const {
    const std::vector<NodeId>& last_readers = load.line->last_readers;
    if (node <= last_readers[std::min(load.unit + 1, last_readers.size() - 1)]) return true;
    const std::vector<ValueId>& own = graph_.node(node).inputs;
    return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
      const std::vector<ValueId>& inputs = graph_.node(reader).inputs;
      return std::find_first_of(own.begin(), own.end(), inputs.begin(), inputs.end()) != own.end();
    });
  }

  // Nodes that only copies were made of.
  void DropUnused() {
    std::vector<bool> keep(graph_.num_nodes(), true);
    for (NodeId id = 0; id < num_nodes_; ++id) keep[id] = !gathered_[id] || used_[id];
    graph_.Rebuild(keep);
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const Topology& topology_;
  const ZeroOptions& zero_;
  const std::string what_;  // is computed again
  const std::set<std::string> axes_;
  const int num_nodes_;  // before any clone was added
  std::vector<bool> gathered_;
  std::vector<bool> used_;  // by node: it may not be changed any more
  std::vector<std::vector<NodeId>> consumers_;
  Rate rate_ = Rate::kStep;
  bool is_pipeline_ = false;
  std::map<LineKey, Line> lines_;
  std::map<ValueId, LastLoad> last_loads_;  // by variable
  std::map<ValueId, ValueId> kept_;         // what forward reads and backward may: by value as it was
  int num_units_;
  UniqueNames names_;
};

}  // namespace

absl::StatusOr<bool> GatherWeights(Graph& graph, PassContext& context) {
  const bool splits = context.options.zero.has_value() && context.options.zero->stage == 3;
  ZeroOptions zero = splits ? *context.options.zero : ZeroOptions{};
  const OffloadOptions* const offload = OffloadOf(context.options, OffloadOptions::What::kWeights);
  if (offload != nullptr || !splits) {
    const OffloadOptions units = offload == nullptr ? OffloadOptions{} : *offload;
    zero.prefetch = units.prefetch;
    zero.unit_bytes = units.unit_bytes;
  }
  const std::set<std::string> axes = splits ? ZeroAxes(context.options, graph) : std::set<std::string>();
  if (!WeightGatherer(graph, context, zero, axes).Run()) return false;
  if (graph.is_trained() && context.options.MeshOf(graph.name()).num_stages() > 1) {
    context.warnings.push_back(absl::StrCat(
        "graph '", graph.name(), "': ", splits ? "zero.stage 3" : "offload of weights",
        " in a pipeline: micro-batches overtake one another, so that ", splits ? "gathered" : "loaded",
        " weights of a stage share no memory", splits ? "; stage 2 takes about as much and moves less" : ""));
  }
  return true;
}

}  // namespace oneflow
