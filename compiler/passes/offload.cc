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
// Units are in the order in which their gradients come, so that their transfers can run beside backward. The first ones
// wait for the first gradient: before that they would only take memory. All waits lead from earlier to later units, so
// that no cycle can arise.
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
    std::map<NodeId, ValueId> loaded;  // by variable
    std::vector<ValueId> loaded_now;   // of these, what is loaded with the unit and not before
    std::vector<ValueId> stored;       // say that it is
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
        const int64_t bytes = ShardBytes(gradient.type, *gradient.dist);
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
      unit.bytes += ShardBytes(graph_.value(gradient).type, *graph_.value(gradient).dist);
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
    std::vector<std::vector<ValueId>> after(units.size());  // what loads of the unit come after
    for (size_t k = 0; k < units.size(); ++k) {
      const int before = static_cast<int>(k) - 1 - options_.prefetch;
      after[k] = before < 0 ? FirstGradients(line) : units[before].stored;
      if (k > 0) after[k].insert(after[k].end(), units[k - 1].loaded_now.begin(), units[k - 1].loaded_now.end());
      LoadLargeOnes(units, k, after);
      Fill(units[k], after[k]);
      ++number_;
    }
    HoldBack(units, options_.prefetch);
    HoldForward(units);
  }

  // Variables that take as much as a unit each, such as an embedding and its state, would all be loaded when the unit
  // before is stored, and then everything waits. Those behind others of their unit are loaded beside an earlier one:
  // units of half as many bytes as those others come in between, since the queue stands still about half of the time
  // where copies are hidden. They take memory from then on, so no more than two units for each that may be there ahead.
  void LoadLargeOnes(std::vector<Unit>& units, size_t k, const std::vector<std::vector<ValueId>>& after) {
    int64_t bytes = 0;
    for (auto& [variable, value] : units[k].loaded) {
      const Value& whole = graph_.value(graph_.node(variable).outputs[0]);
      const int64_t own = ShardBytes(whole.type, *whole.dist);
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
      waits.insert(waits.end(), units[beside].loaded_now.begin(), units[beside].loaded_now.end());
    }
  }

  // The stores of the last units go on beside the next forward; its second half waits for them, so that they take no
  // memory when it needs most.
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
    for (size_t k = units.size() - std::min(units.size(), static_cast<size_t>(1 + options_.prefetch)); k < units.size();
         ++k) {
      after.insert(after.end(), units[k].stored.begin(), units[k].stored.end());
    }
  }

  // Backward does not run ahead of stores that go on beside it: those of its nodes that come behind what unit k waits
  // for, and follow none that do, wait until an earlier unit is stored. So gradients of a few units are there.
  void HoldBack(const std::vector<Unit>& units, int prefetch) {
    const size_t ahead = static_cast<size_t>(2 + prefetch);
    for (size_t k = ahead; k < units.size(); ++k) {
      const NodeId begin = std::max(units[k - 1].last, units[k - ahead].last) + 1, end = units[k].last;
      const Placement& on = *graph_.node(units[k].users.front()).placement;
      for (NodeId id = begin; id <= end; ++id) {
        const Node& node = graph_.node(id);
        if (!IsBackward(node) || node.rate != Rate::kStep || node.placement != on || Follows(id, begin)) continue;
        std::vector<ValueId>& after = graph_.node(id).after;
        after.insert(after.end(), units[k - ahead].stored.begin(), units[k - ahead].stored.end());
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

  std::vector<ValueId> FirstGradients(const Line& line) const {
    if (line.front().last < 0 || graph_.node(line.front().last).outputs.empty()) return {};
    const ValueId made = graph_.node(line.front().last).outputs[0];
    if (ValueRate(graph_, made, ops_) != Rate::kStep) return {};
    return {made};
  }

  void Add(NodeId user, Unit& unit) const {
    unit.users.push_back(user);
    for (const ValueId input : graph_.node(user).inputs) {
      const NodeId variable = InTier(input);
      if (variable < 0 || !unit.loaded.emplace(variable, -1).second) continue;
      const Value& value = graph_.value(graph_.node(variable).outputs[0]);
      unit.bytes += ShardBytes(value.type, *value.dist);
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
      unit.loaded_now.push_back(value);
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
    // Weights first, which the next forward waits for.
    std::vector<NodeId> in_order(overwritten.begin(), overwritten.end());
    const auto states = std::stable_partition(in_order.begin(), in_order.end(),
                                              [&](NodeId variable) { return IsReadBySteps(variable); });
    std::vector<ValueId> weights;
    for (auto it = in_order.begin(); it != in_order.end(); ++it) {
      if (it == states && it != in_order.begin()) {
        weights = unit.stored;
        like.unit = ++number_;
      }
      const std::vector<ValueId> inputs = {graph_.node(*it).outputs[0], unit.loaded.at(*it)};
      unit.stored.push_back(
          AddTierCopy(graph_, TierCopy::kStoreInto, *in_tier_.at(*it), inputs, NameFor(*it, "/store"), like));
      graph_.node(graph_.value(unit.stored.back()).producer).after = weights;
    }
  }

  Graph& graph_;
  const PassContext& context_;
  const OpRegistry& ops_;
  const int num_nodes_;  // before any copy was added
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<NodeId> waits_for_;
  UniqueNames names_;
  const OffloadOptions options_;               // of units of updates
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
