// That variables lie in a tier of memory below the device's (oneflow_core/tiers.h) while nothing computes with them.
//
// A weight that forward or backward reads is loaded once, behind its variable: when, and how often, is the choice of
// passes/gather_weights.cc, as for weights that lie split. What the update reads and overwrites goes in units. Those
// that are updated one after the other are a unit, until it is full; it is loaded, overwritten where it is, and stored:
//
//   loads     0 │ 1 │ 2 ───────┐ 3 ───────┐       2 waits for 1, and for the stores of 0: one unit is loaded
//   updates       0 │ 1        │ 2        │ 3     before the one in use (prefetch 1)
//   stores            0 ──► ───┘ 1 ──► ───┘ 2
//
// Where gradients wait for one another, as where all are clipped by one norm, they may lie in a tier from backward to
// their updates: they are stored as they come, and loaded like the state of their weight.
//
// Units are in the order in which their gradients come, so that transfers can run beside backward, which goes unit by
// unit. They lie in up to `1 + prefetch` slots in turn: what is loaded into a slot waits for the store of what was
// there, perhaps in the step before; of more than two slots most are filled beside forward. All waits lead from earlier
// to later units, or to the next step, so that no cycle can arise.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/boxed_graph.h"
#include "compiler/passes/passes.h"
#include "compiler/tier_copies.h"
#include "oneflow_core/tiers.h"
#include "oneflow_core/unique_names.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

class Offloader {
 public:
  Offloader(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        ops_(context.ops),
        num_nodes_(graph.num_nodes()),
        consumers_(graph.Consumers()),
        names_(graph),
        options_(OptionsOfUpdates(context.options)) {}

  bool stores_gradients() const { return stores_gradients_; }

  // Returns whether anything lies in a tier.
  absl::StatusOr<bool> Run() {
    OF_RETURN_IF_ERROR(FindVariables());
    FindWaits();
    number_ = FirstFreeUnit(graph_);
    StoreGradients();
    if (in_tier_.empty()) return false;
    OF_RETURN_IF_ERROR(CheckRates());
    LoadForSteps();
    for (const auto& [placement, line] : Lines()) LoadForUpdates(line);
    if (graph_.Sorted().size() < static_cast<size_t>(graph_.num_nodes())) {
      return absl::UnimplementedError(
          absl::StrCat("graph '", graph_.name(), "': updates of what lies in tiers wait for one another in a circle"));
    }
    graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
    return true;
  }

 private:
  // Nodes that the update of one variable is made of and that use variables in tiers; and the last that they wait for.
  struct Group {
    std::vector<NodeId> users;
    NodeId last = -1;
  };
  using Line = std::vector<Group>;  // on the same ranks, in the order in which they may begin
  struct Unit {
    std::vector<NodeId> users;
    std::map<NodeId, ValueId> loaded;    // by variable
    std::vector<ValueId> loads, stored;  // say that it is; without what is loaded earlier, and all
    std::vector<ValueId> left;           // of those stored, what lay in the slot
    int64_t bytes = 0;
    NodeId last = -1;  // of what it waits for
  };

  // What the job says of states, else of weights, else of gradients.
  static OffloadOptions OptionsOfUpdates(const CompileOptions& options) {
    const OffloadOptions* of = nullptr;
    for (const auto what :
         {OffloadOptions::What::kOptimizer, OffloadOptions::What::kWeights, OffloadOptions::What::kGradients}) {
      if (of == nullptr) of = OffloadOf(options, what);
    }
    return of == nullptr ? OffloadOptions{} : *of;
  }

  absl::Status FindVariables() {
    const Placement whole = context_.options.MeshOf(graph_.name()).whole();
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& node = graph_.node(id);
      const TierKind* const tier = TierOf(node.attrs);
      if (!ops_.Is(node.op, OpKind::kVariable) || tier == nullptr) continue;
      const Placement& home = graph_.value(node.outputs[0]).dist->placement;
      if (std::any_of(home.ranks().begin(), home.ranks().end(), [&](int rank) { return whole.IndexOf(rank) < 0; })) {
        return absl::UnimplementedError(absl::StrCat(Where(node), ": lies on ", tier->name, " of ", home.ToString(),
                                                     ", of which the plan's mesh, ", whole.ToString(),
                                                     ", does not have all ranks"));
      }
      in_tier_[id] = tier;
    }
    return absl::OkStatus();
  }

  // What computes the value of a boxing, perhaps of several.
  NodeId MakerOf(NodeId id) const {
    if (!ops_.Is(graph_.node(id).op, OpKind::kBoxing)) return id;
    return MakerOf(graph_.value(graph_.node(id).inputs[0]).producer);
  }

  // Gradients whose updates wait for other gradients, as where all are clipped by one norm, lie in a tier meanwhile. Of
  // several micro-batches the sums are there all the time.
  void StoreGradients() {
    const OffloadOptions* const options = OffloadOf(context_.options, OffloadOptions::What::kGradients);
    if (options == nullptr || context_.options.micro_batches > 1) return;
    using Key = std::tuple<Placement, NodeId, ValueId>;  // in the order in which they are made
    std::map<Key, std::vector<NodeId>> late;             // readers
    for (NodeId id = 0; id < num_nodes_; ++id) {
      if (!IsUpdate(graph_.node(id))) continue;
      for (const ValueId value : graph_.node(id).inputs) {
        const Value& gradient = graph_.value(value);
        const bool is_late = IsBackward(graph_.node(gradient.producer)) && waits_for_[id] > gradient.producer;
        const bool is_here = gradient.dist->placement == *graph_.node(id).placement;
        const int64_t bytes = BytesOf(value);
        if (!is_late || !is_here || bytes == 0 || bytes < options->least_bytes) continue;
        late[{gradient.dist->placement, MakerOf(gradient.producer), value}].push_back(id);
      }
    }
    std::map<Placement, std::vector<Unit>> lines;
    for (const auto& [key, readers] : late) {
      const auto& [placement, maker, gradient] = key;
      std::vector<Unit>& units = lines[placement];
      if (units.empty() || units.back().bytes >= options->unit_bytes) {
        units.emplace_back();
        ++number_;
      }
      const NodeId producer = graph_.value(gradient).producer;
      Node like = graph_.node(producer);
      like.unit = number_;
      Unit& unit = units.back();
      unit.users.push_back(producer);
      unit.last = maker;
      unit.bytes += BytesOf(gradient);
      unit.stored.push_back(
          AddTierCopy(graph_, TierCopy::kStore, *options->tier, {gradient}, NameFor(producer, "/stored"), like));
      in_tier_[graph_.value(unit.stored.back()).producer] = options->tier;
      for (const NodeId reader : readers) {
        std::vector<ValueId>& inputs = graph_.node(reader).inputs;
        std::replace(inputs.begin(), inputs.end(), gradient, unit.stored.back());
      }
    }
    // Where gradients are reduced to parts, backward waits for that (reduce_gradients.cc).
    const bool is_held = context_.options.zero.has_value() && context_.options.zero->stage > 1;
    for (const auto& [placement, units] : lines) {
      if (!is_held) HoldBack(units, options->prefetch);
    }
    stores_gradients_ = !lines.empty();
    ++number_;
  }

  // A load, and a store, is once a step.
  absl::Status CheckRates() const {
    for (NodeId id = 0; id < num_nodes_; ++id) {
      if (graph_.node(id).rate == Rate::kStep || !Overwrites(id)) continue;
      return absl::UnimplementedError(absl::StrCat(Where(graph_.node(id)), ": overwrites a variable in every ",
                                                   "micro-batch, which therefore cannot lie in a tier"));
    }
    return absl::OkStatus();
  }

  // The variable in a tier, or the copy of a gradient to it, whose value it is; or -1.
  NodeId InTier(ValueId value) const {
    const NodeId maker = graph_.value(value).producer;
    return in_tier_.count(maker) > 0 ? maker : -1;
  }

  std::string NameFor(NodeId variable, const char* what) {
    return names_.Make(absl::StrCat(graph_.node(variable).name, what));
  }

  ValueId Load(NodeId variable, Node like) {
    like.rate = Rate::kStep;
    return AddTierCopy(graph_, TierCopy::kLoad, *in_tier_.at(variable), {graph_.node(variable).outputs[0]},
                       NameFor(variable, "/load"), like);
  }

  bool Overwrites(NodeId id) const {
    const std::vector<int>& mutates = ops_.Find(graph_.node(id).op)->mutates;
    return std::any_of(mutates.begin(), mutates.end(),
                       [&](int input) { return InTier(graph_.node(id).inputs[input]) >= 0; });
  }
  // Whether forward or backward reads the variable.
  bool IsReadBySteps(NodeId variable) const {
    const std::vector<NodeId>& readers = consumers_[graph_.node(variable).outputs[0]];
    return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) { return !IsOfUnits(reader); });
  }
  // Whether what it uses of tiers goes in units.
  bool IsOfUnits(NodeId id) const { return IsUpdate(graph_.node(id)) || Overwrites(id); }

  // One load of each weight, for all that is no update.
  void LoadForSteps() {
    std::map<NodeId, ValueId> loaded;
    for (NodeId id = 0; id < num_nodes_; ++id) {
      if (IsOfUnits(id)) continue;
      for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const NodeId variable = InTier(graph_.node(id).inputs[i]);
        if (variable < 0) continue;
        auto it = loaded.find(variable);
        if (it == loaded.end()) it = loaded.emplace(variable, Load(variable, graph_.node(id))).first;
        graph_.node(id).inputs[i] = it->second;
      }
    }
  }

  // By node of the update: the last node of forward or backward that it waits for, through others of the update; -1:
  // none.
  void FindWaits() {
    waits_for_.assign(num_nodes_, -1);
    for (NodeId id = 0; id < num_nodes_; ++id) {
      for (const ValueId input : graph_.node(id).inputs) {
        const NodeId maker = graph_.value(input).producer;
        if (ops_.Is(graph_.node(maker).op, OpKind::kVariable)) continue;
        waits_for_[id] = std::max(waits_for_[id], IsUpdate(graph_.node(maker)) ? waits_for_[maker] : maker);
      }
    }
  }

  // The same of a user, which also waits for readers of what it overwrites.
  NodeId LastBefore(NodeId user) const {
    const Node& node = graph_.node(user);
    NodeId last = waits_for_[user];
    for (const int input : ops_.Find(node.op)->mutates) {
      for (const NodeId reader : consumers_[node.inputs[input]]) {
        if (!IsOfUnits(reader)) last = std::max(last, reader);
      }
    }
    return last;
  }

  std::map<Placement, Line> Lines() const {
    std::map<std::tuple<Placement, NodeId>, Group> groups;
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& node = graph_.node(id);
      if (!IsOfUnits(id) ||
          std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return InTier(input) >= 0; })) {
        continue;
      }
      Group& group = groups[{*node.placement, node.variable >= 0 ? node.variable : num_nodes_ + id}];
      group.users.push_back(id);
      group.last = std::max(group.last, LastBefore(id));
    }
    std::map<Placement, Line> lines;
    for (auto& [key, group] : groups) lines[std::get<0>(key)].push_back(std::move(group));
    for (auto& [placement, line] : lines) {
      std::stable_sort(line.begin(), line.end(), [](const Group& a, const Group& b) { return a.last < b.last; });
    }
    return lines;
  }

  void LoadForUpdates(const Line& line) {
    std::vector<Unit> units;
    for (const Group& group : line) {
      if (units.empty() || units.back().bytes >= options_.unit_bytes) units.emplace_back();
      for (const NodeId user : group.users) Add(user, units.back());
      units.back().last = std::max(units.back().last, group.last);
    }
    CountSlots(units);
    std::vector<std::vector<ValueId>> after(units.size());  // what loads of the unit come after
    for (size_t k = 0; k < units.size(); ++k) {
      after[k] = AfterUnit(units, k);
      if (!has_room_) LoadLargeOnes(units, k, after);
      Fill(units[k], after[k]);
      ++number_;
      if (has_room_ && k + 2 == num_slots_) LoadLargeOnesBehind(units, k);
    }
    for (size_t k = 0; k < std::min(num_slots_, units.size()); ++k) {
      const size_t last = k + (units.size() - 1 - k) / num_slots_ * num_slots_;  // in the same slot
      if (last != k) AddTo(units[k].loads, &Node::after_last, units[last].left);
    }
    HoldBack(units, options_.prefetch);
    HoldForward(units);
  }

  void AddTo(const std::vector<ValueId>& loads, std::vector<ValueId> Node::*waits, const std::vector<ValueId>& more) {
    for (const ValueId load : loads) {
      std::vector<ValueId>& of = graph_.node(graph_.value(load).producer).*waits;
      of.insert(of.end(), more.begin(), more.end());
    }
  }

  int64_t BytesOf(ValueId value) const { return ShardBytes(graph_.value(value).type, *graph_.value(value).dist); }

  // Whether a variable takes as much as a usual unit, and is in an unusual one: of an embedding, say.
  bool IsLarge(const Unit& unit, NodeId variable) const {
    return unit.bytes > slot_bytes_ && BytesOf(graph_.node(variable).outputs[0]) >= slot_bytes_;
  }
  bool HasLarge(const Unit& unit) const {
    return std::any_of(unit.loaded.begin(), unit.loaded.end(), [&](const auto& x) { return IsLarge(unit, x.first); });
  }

  // A slot takes the largest unit but for those of more than twice the usual size. Large variables have room of their
  // own, in place of slots if at least two are left. Of slots there are no more than all rounds of a step fill: so the
  // last units of a step are as far from the first ones of the next as any others.
  void CountSlots(const std::vector<Unit>& units) {
    std::vector<int64_t> sizes;
    for (const Unit& unit : units) sizes.push_back(unit.bytes);
    std::sort(sizes.begin(), sizes.end());
    const int64_t usual = sizes[(sizes.size() - 1) / 2];
    slot_bytes_ = std::max<int64_t>(1, *std::prev(std::upper_bound(sizes.begin(), sizes.end(), 2 * usual)));
    size_t large_slots = 0;
    for (const Unit& unit : units) {
      for (const auto& [variable, value] : unit.loaded) {
        const int64_t bytes = BytesOf(graph_.node(variable).outputs[0]);
        if (IsLarge(unit, variable)) large_slots += (bytes + slot_bytes_ - 1) / slot_bytes_;
      }
    }
    const size_t slots = 1 + static_cast<size_t>(std::max(0, options_.prefetch));
    has_room_ = large_slots > 0 && large_slots + 2 <= slots;
    const size_t most = has_room_ ? slots - large_slots : slots;
    const size_t rounds = (units.size() + most - 1) / most;
    num_slots_ = (units.size() + rounds - 1) / rounds;
  }

  // What the loads of unit k wait for in their step.
  std::vector<ValueId> AfterUnit(const std::vector<Unit>& units, size_t k) const {
    std::vector<ValueId> after;
    if (k >= num_slots_) after = has_room_ ? units[k - num_slots_].left : units[k - num_slots_].stored;
    // Before the first gradients the last of those that are there at once would only take memory. So would the only one
    // ahead: where disks are slow, one does not help.
    if (k + 1 == num_slots_ || (k == 0 && num_slots_ == 2)) after = MadeBy(units[0].last);
    if (k > 0) after.insert(after.end(), units[k - 1].loads.begin(), units[k - 1].loads.end());
    return after;
  }

  // Large variables that have room are loaded as soon as the first slots are full. Until the first of these can be
  // stored the queue would stand still; nor does it wait long for their own stores, which are the last ones of a step.
  void LoadLargeOnesBehind(std::vector<Unit>& units, size_t first) {
    for (size_t k = first + 1; k < units.size(); ++k) {
      for (auto& [variable, value] : units[k].loaded) {
        if (!IsLarge(units[k], variable)) continue;
        Node like = graph_.node(units[k].users.front());
        like.unit = number_++;
        value = Load(variable, like);
        graph_.node(graph_.value(value).producer).after = units[first].loads;
        units[first].loads = {value};  // what comes next comes behind it
      }
    }
  }

  // Where there is no room for them, all would be loaded when the unit before is stored, and then everything waits.
  // Those behind others of their unit are loaded beside an earlier one: units of half as many bytes as those others
  // come in between, since the queue stands still about half of the time where copies are hidden. They take memory from
  // then on, so no more than two units for each that may be there ahead.
  void LoadLargeOnes(std::vector<Unit>& units, size_t k, const std::vector<std::vector<ValueId>>& after) {
    int64_t bytes = 0;
    for (auto& [variable, value] : units[k].loaded) {
      const int64_t own = BytesOf(graph_.node(variable).outputs[0]);
      if (own < options_.unit_bytes) continue;
      size_t beside = k;
      int64_t earlier = bytes / 2;
      for (int i = 0; i < 2 * options_.prefetch && beside > 0 && units[beside - 1].bytes <= earlier; ++i) {
        earlier -= units[--beside].bytes;
      }
      bytes += own;
      if (beside == k) continue;
      Node like = graph_.node(units[k].users.front());
      like.unit = number_++;
      value = Load(variable, like);
      std::vector<ValueId>& waits = graph_.node(graph_.value(value).producer).after;
      waits = after[beside];
      waits.insert(waits.end(), units[beside].loads.begin(), units[beside].loads.end());
    }
  }

  // The stores of the last units go on beside the next forward. Its second half, when memory is needed most, waits for
  // those of large variables without room, and of all where no unit is to be there with others.
  void HoldForward(const std::vector<Unit>& units) {
    const Placement& on = *graph_.node(units.back().users.front()).placement;
    std::vector<NodeId> forward;
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& node = graph_.node(id);
      const OpKind kind = ops_.Find(node.op)->kind;
      if (IsForward(node) && kind != OpKind::kVariable && kind != OpKind::kBoxing && node.placement == on) {
        forward.push_back(id);
      }
    }
    if (forward.empty()) return;
    std::vector<ValueId>& after = graph_.node(forward[forward.size() / 2]).after_last;
    // Those before them are stored when the last one is loaded.
    for (size_t k = units.size() - std::min(units.size(), num_slots_); k < units.size(); ++k) {
      if (options_.prefetch > 0 && (has_room_ || !HasLarge(units[k]))) continue;
      after.insert(after.end(), units[k].stored.begin(), units[k].stored.end());
    }
  }

  // Backward goes unit by unit, so that updates need not wait for gradients of later ones, and does not run ahead of
  // stores that go on beside it, so that gradients of a few units are there: of its nodes that come behind what a unit
  // waits for, those that follow no other wait for that, and until an earlier unit is stored. Of several micro-batches
  // sums of gradients come with the last one, and what is once a step there, as a constant, may be wanted by the first.
  void HoldBack(const std::vector<Unit>& units, int prefetch) {
    if (context_.options.micro_batches > 1) return;
    const size_t ahead = static_cast<size_t>(2 + prefetch);
    for (size_t k = 1; k < units.size(); ++k) {
      const NodeId begin = units[k - 1].last + 1, end = units[k].last;
      std::vector<ValueId> waits = MadeBy(units[k - 1].last);
      if (k >= ahead) waits.insert(waits.end(), units[k - ahead].stored.begin(), units[k - ahead].stored.end());
      const Placement& on = *graph_.node(units[k].users.front()).placement;
      for (NodeId id = begin; id <= end; ++id) {
        const Node& node = graph_.node(id);
        if (!IsBackward(node) || node.rate != Rate::kStep || node.placement != on || Follows(id, begin)) continue;
        std::vector<ValueId>& after = graph_.node(id).after;
        after.insert(after.end(), waits.begin(), waits.end());
      }
    }
  }

  // Whether the node reads, perhaps through boxings, what a backward node from `begin` on makes.
  bool Follows(NodeId id, NodeId begin) const {
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) {
      const NodeId maker = graph_.value(input).producer;
      return maker >= begin && IsBackward(graph_.node(maker));
    });
  }

  // What tells that this node of forward or backward, if it is one, has run in a step.
  std::vector<ValueId> MadeBy(NodeId id) const {
    if (id < 0 || graph_.node(id).outputs.empty()) return {};
    const ValueId made = graph_.node(id).outputs[0];
    if (ValueRate(graph_, made, ops_) != Rate::kStep) return {};
    return {made};
  }

  void Add(NodeId user, Unit& unit) const {
    unit.users.push_back(user);
    for (const ValueId input : graph_.node(user).inputs) {
      const NodeId variable = InTier(input);
      if (variable < 0 || !unit.loaded.emplace(variable, -1).second) continue;
      unit.bytes += BytesOf(graph_.node(variable).outputs[0]);
    }
  }

  // Loads what the unit needs after these values, gives it to its users, and stores what they overwrite.
  void Fill(Unit& unit, const std::vector<ValueId>& after) {
    for (const NodeId user : unit.users) {
      if (!ops_.Is(graph_.node(user).op, OpKind::kBoxing)) graph_.node(user).unit = number_;
    }
    Node like = graph_.node(unit.users.front());
    like.unit = number_;
    for (auto& [variable, value] : unit.loaded) {
      if (value >= 0) continue;
      value = Load(variable, like);
      graph_.node(graph_.value(value).producer).after = after;
      unit.loads.push_back(value);
    }
    std::set<NodeId> overwritten;
    for (const NodeId user : unit.users) {
      const std::vector<int>& mutates = ops_.Find(graph_.node(user).op)->mutates;
      for (size_t i = 0; i < graph_.node(user).inputs.size(); ++i) {
        const NodeId variable = InTier(graph_.node(user).inputs[i]);
        if (variable < 0) continue;
        graph_.node(user).inputs[i] = unit.loaded.at(variable);
        if (std::find(mutates.begin(), mutates.end(), static_cast<int>(i)) != mutates.end()) {
          overwritten.insert(variable);
        }
      }
    }
    StoreWhatIs(overwritten, unit, like);
  }

  // Weights first, which the next forward waits for; then what lies in the slot, and each large variable by itself.
  void StoreWhatIs(const std::set<NodeId>& overwritten, Unit& unit, Node like) {
    using Turn = std::pair<bool, NodeId>;  // no weight; the large one, or -1
    std::map<Turn, std::vector<NodeId>> turns;
    for (const NodeId variable : overwritten) {
      const bool apart = has_room_ && IsLarge(unit, variable);
      turns[{!IsReadBySteps(variable), apart ? variable : -1}].push_back(variable);
    }
    std::vector<ValueId> weights;
    for (const auto& [turn, variables] : turns) {
      if (!unit.stored.empty()) like.unit = ++number_;
      for (const NodeId variable : variables) {
        const std::vector<ValueId> inputs = {graph_.node(variable).outputs[0], unit.loaded.at(variable)};
        const ValueId stored = AddTierCopy(graph_, TierCopy::kStoreInto, *in_tier_.at(variable), inputs,
                                           NameFor(variable, "/store"), like);
        if (turn.first) graph_.node(graph_.value(stored).producer).after = weights;
        unit.stored.push_back(stored);
        if (!IsLarge(unit, variable)) unit.left.push_back(stored);
      }
      if (!turn.first) weights = unit.stored;
    }
  }

  Graph& graph_;
  const PassContext& context_;
  const OpRegistry& ops_;
  const int num_nodes_;  // before any copy was added
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<NodeId> waits_for_;
  UniqueNames names_;
  const OffloadOptions options_;  // of units of updates
  // Of the line in work.
  int64_t slot_bytes_ = 0;
  size_t num_slots_ = 0;
  bool has_room_ = false;                      // large variables take the place of slots
  std::map<NodeId, const TierKind*> in_tier_;  // by variable, or copy of a gradient
  int number_ = 0;                             // of the next unit
  bool stores_gradients_ = false;
};

}  // namespace

absl::StatusOr<bool> Offload(Graph& graph, PassContext& context) {
  Offloader offloader(graph, context);
  OF_ASSIGN_OR_RETURN(const bool changed, offloader.Run());
  const bool asked = OffloadOf(context.options, OffloadOptions::What::kGradients) != nullptr;
  if (asked && graph.is_trained() && !offloader.stores_gradients()) {
    context.warnings.push_back(absl::StrCat(
        "graph '", graph.name(), "': offload of gradients changes nothing: ",
        context.options.micro_batches > 1 ? "their sums over micro-batches are there all the time"
                                          : "no large one waits for others, as it would to be clipped by their norm"));
  }
  return changed;
}

}  // namespace oneflow
