#include "compiler/select/candidates.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

bool HasSplit(const Signature& signature) {
  const auto is_split = [](const Sbp& sbp) { return sbp.is_split(); };
  return std::any_of(signature.inputs.begin(), signature.inputs.end(), is_split) ||
         std::any_of(signature.outputs.begin(), signature.outputs.end(), is_split);
}

// The user's wish for `value` along `axis`, or null.
const AxisSbp* WishAlong(const Value& value, absl::string_view axis) {
  for (const AxisSbp& wish : value.hint) {
    if (wish.axis == axis) return &wish;
  }
  return nullptr;
}

// The distance of `sbp` from a wish: another dimension is nearer than a copy, a copy nearer than addends.
int Mismatch(const Sbp& wanted, const Sbp& sbp) {
  if (wanted == sbp) return 0;
  if (wanted.kind() == sbp.kind()) return 1;
  return sbp.is_broadcast() ? 2 : 3;
}

// Alternatives for an error: the outputs of the one or two signatures that are nearest to the wishes.
std::string Proposals(const Graph& graph, const Node& node, const Axis& axis, const std::vector<Signature>& existing) {
  std::multimap<int, std::string> by_distance;  // of equal ones the first signature is first
  for (const Signature& signature : existing) {
    int distance = 0;
    std::vector<std::string> outputs;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const AxisSbp* const wish = WishAlong(graph.value(node.outputs[i]), axis.name);
      if (wish == nullptr) continue;
      distance += Mismatch(wish->sbp, signature.outputs[i]);
      outputs.push_back(ToString(SbpHint{{axis.name, signature.outputs[i]}}));
      if (node.outputs.size() > 1) absl::StrAppend(&outputs.back(), " of output ", i);
    }
    const std::string text = absl::StrJoin(outputs, " with ");
    const auto same = [&](const auto& entry) { return entry.second == text; };
    if (std::none_of(by_distance.begin(), by_distance.end(), same)) by_distance.emplace(distance, text);
  }
  std::vector<std::string> nearest;
  for (const auto& [distance, text] : by_distance) {
    if (nearest.size() < 2) nearest.push_back(text);
  }
  return nearest.empty() ? "" : absl::StrCat("; nearest: ", absl::StrJoin(nearest, ", or "));
}

absl::Status NoSuchSignature(const Graph& graph, const Node& node, const Axis& axis,
                             const std::vector<Signature>& existing) {
  std::vector<std::string> wishes, signatures;
  for (ValueId output : node.outputs) {
    if (const AxisSbp* const wish = WishAlong(graph.value(output), axis.name)) {
      wishes.push_back(node.outputs.size() == 1
                           ? wish->sbp.ToString()
                           : absl::StrCat(wish->sbp.ToString(), " of output ", graph.value(output).output));
    }
  }
  for (const Signature& signature : existing) signatures.push_back(signature.ToString());
  return absl::InvalidArgumentError(
      absl::StrCat(Where(node), ": asked for ", absl::StrJoin(wishes, ", "), " along mesh axis '", axis.name, "' of ",
                   axis.size, " ranks, but the op's signatures are ", absl::StrJoin(signatures, " | "),
                   Proposals(graph, node, axis, existing)));
}

Layout Combine(const std::vector<const Signature*>& per_axis, size_t num_inputs, size_t num_outputs) {
  Layout layout{std::vector<NdSbp>(num_inputs), std::vector<NdSbp>(num_outputs)};
  for (const Signature* signature : per_axis) {
    for (size_t i = 0; i < num_inputs; ++i) layout.inputs[i].push_back(signature->inputs[i]);
    for (size_t i = 0; i < num_outputs; ++i) layout.outputs[i].push_back(signature->outputs[i]);
  }
  return layout;
}

// Whether some rank would have no element of a tensor that is not empty.
bool LeavesRanksEmpty(const Shape& shape, const NdSbp& sbp, const std::vector<Axis>& axes) {
  std::vector<int64_t> parts(shape.rank(), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!sbp[i].is_split()) continue;
    parts[sbp[i].dim()] *= axes[i].size;
    if (parts[sbp[i].dim()] > std::max<int64_t>(shape[sbp[i].dim()], 1)) return true;
  }
  return false;
}

bool LeavesRanksEmpty(const Graph& graph, const Node& node, const Layout& layout) {
  const std::vector<Axis>& axes = node.placement->axes();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (LeavesRanksEmpty(graph.value(node.inputs[i]).type.shape, layout.inputs[i], axes)) return true;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (LeavesRanksEmpty(graph.value(node.outputs[i]).type.shape, layout.outputs[i], axes)) return true;
  }
  return false;
}

int64_t NumCombinations(const std::vector<std::vector<Signature>>& per_axis) {
  int64_t product = 1;
  for (const auto& list : per_axis) product *= static_cast<int64_t>(list.size());
  return product;
}

// Drops signatures, from the longest lists first, until the product is small enough. The last of a list, all-B or the
// only one that the user allows, stays.
void Cap(std::vector<std::vector<Signature>>& per_axis, int64_t limit) {
  while (NumCombinations(per_axis) > limit) {
    const auto longest = std::max_element(per_axis.begin(), per_axis.end(),
                                          [](const auto& a, const auto& b) { return a.size() < b.size(); });
    longest->erase(longest->end() - 2);
  }
}

}  // namespace

absl::StatusOr<const std::vector<Signature>*> CandidateFinder::Signatures(NodeId node, int axis_size) {
  std::vector<int> key = alike_.Key(graph_.node(node));
  key.push_back(axis_size);
  auto it = known_.find(key);
  if (it == known_.end()) {
    OF_ASSIGN_OR_RETURN_AT(std::vector<Signature> signatures, Signatures1d(ops_, graph_, node, axis_size),
                           Where(graph_.node(node)));
    it = known_.emplace(std::move(key), std::move(signatures)).first;
  }
  return &it->second;
}

AxisSbp* CandidateFinder::Kept(ValueId value, const std::string& axis) {
  for (AxisSbp& kept : kept_[value]) {
    if (kept.axis == axis) return &kept;
  }
  return nullptr;
}

// The weakest wishes for the outputs of `node`, and the weakest kept splits among its inputs.
std::set<int> CandidateFinder::Priorities(const Node& node) const {
  std::set<int> priorities = {0};
  for (ValueId output : node.outputs) {
    for (const AxisSbp& wish : graph_.value(output).hint) priorities.insert(wish.priority);
  }
  for (ValueId input : node.inputs) {
    for (const AxisSbp& kept : kept_[input]) priorities.insert(kept.priority);
  }
  return priorities;
}

// The signatures along one axis that meet the user's wishes for every output and keep annotated splits. Wishes and
// splits of greater numbers than `weakest` do not count.
absl::StatusOr<std::vector<Signature>> CandidateFinder::OnAxis(NodeId id, const Axis& axis, const Weakest& weakest) {
  const Node& node = graph_.node(id);
  OF_ASSIGN_OR_RETURN(const std::optional<Signature> own, own_.SignatureOf(graph_, ops_, id, axis.name));
  if (own.has_value()) return std::vector<Signature>{*own};
  OF_ASSIGN_OR_RETURN(const OpDef* const op, ops_.Get(node.op));
  OF_ASSIGN_OR_RETURN(const std::vector<Signature>* const all, Signatures(id, axis.size));
  const std::vector<Signature> usable = Usable(*all, node.placement->axes(), axis);
  std::vector<Signature> fitting = usable;
  int inputs_kept = -1;  // the strongest priority of what was kept
  for (const int priority : Priorities(node)) {
    if (priority > weakest.wish) break;
    std::vector<Signature> wanted;
    for (const Signature& signature : fitting) {
      bool fits = true;
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const AxisSbp* const wish = WishAlong(graph_.value(node.outputs[i]), axis.name);
        fits = fits && (wish == nullptr || wish->priority != priority || wish->sbp == signature.outputs[i]);
      }
      if (fits) wanted.push_back(signature);
    }
    if (!wanted.empty()) {
      fitting = std::move(wanted);
    } else if (priority == 0) {
      return NoSuchSignature(graph_, node, axis, usable);
    }
    if (!op->mutates.empty() || priority > weakest.kept) continue;  // variables that are overwritten keep their layout
    if (KeepInputs(node, axis, priority, fitting) && inputs_kept < 0) inputs_kept = priority;
  }
  KeepOutputs(node, axis, fitting, inputs_kept);
  return fitting;
}

// Rings are for sequences, and as the options have them. Cost knows no data, so what depends on it is taken only where
// it is asked for.
std::vector<Signature> CandidateFinder::Usable(const std::vector<Signature>& all, const std::vector<Axis>& axes,
                                               const Axis& axis) const {
  const auto is_sequence = [](const Axis& other) { return other.Has(AxisRole::kSequence); };
  const auto last = std::find_if(axes.rbegin(), axes.rend(), is_sequence);
  const bool is_left_out =
      rings_ == RingUse::kNever || (rings_ == RingUse::kOuter && last != axes.rend() && last->name == axis.name);
  const bool may_be_rings = is_sequence(axis) && !is_left_out;
  // Of several such axes the other signature may not be open to all.
  const bool may_be_uneven = rings_ != RingUse::kByCost || std::count_if(axes.begin(), axes.end(), is_sequence) > 1;
  std::vector<Signature> usable;
  for (const Signature& signature : all) {
    if (signature.is_uneven && !may_be_uneven) continue;
    if (!signature.is_ring || may_be_rings) usable.push_back(signature);
  }
  const auto is_ring = [](const Signature& signature) { return signature.is_ring; };
  if (rings_ != RingUse::kByCost && std::any_of(usable.begin(), usable.end(), is_ring)) {
    usable.erase(std::remove_if(usable.begin(), usable.end(), std::not_fn(is_ring)), usable.end());
  }
  return usable;
}

// Leaves only the signatures that read all splits kept with this priority as they are, if there are any; returns
// whether.
bool CandidateFinder::KeepInputs(const Node& node, const Axis& axis, int priority, std::vector<Signature>& signatures) {
  std::vector<const Sbp*> wanted;
  bool any = false;
  for (ValueId input : node.inputs) {
    const AxisSbp* const kept = Kept(input, axis.name);
    wanted.push_back(kept == nullptr || kept->priority != priority ? nullptr : &kept->sbp);
    any = any || wanted.back() != nullptr;
  }
  if (!any) return false;
  std::vector<Signature> keeping;
  for (const Signature& signature : signatures) {
    bool keeps = true;
    for (size_t i = 0; i < wanted.size(); ++i)
      keeps = keeps && (wanted[i] == nullptr || *wanted[i] == signature.inputs[i]);
    if (keeps) keeping.push_back(signature);
  }
  // A ring moves as much as another layout may: cost decides.
  if (std::all_of(keeping.begin(), keeping.end(), [](const Signature& signature) { return signature.is_ring; })) {
    return false;
  }
  signatures = std::move(keeping);
  return true;
}

// Outputs keep a split if it was asked for, or if it follows from kept inputs (of priority `inputs_kept`, unless that
// is negative) for every signature.
void CandidateFinder::KeepOutputs(const Node& node, const Axis& axis, const std::vector<Signature>& signatures,
                                  int inputs_kept) {
  if (ops_.Is(node.op, OpKind::kVariable)) return;  // the layout of a weight does not constrain its readers
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Sbp& first = signatures[0].outputs[i];
    const bool same = std::all_of(signatures.begin(), signatures.end(),
                                  [&](const Signature& signature) { return signature.outputs[i] == first; });
    if (!same || !first.is_split()) continue;
    int priority = inputs_kept;
    const AxisSbp* const wish = WishAlong(graph_.value(node.outputs[i]), axis.name);
    if (wish != nullptr && wish->sbp == first && (priority < 0 || wish->priority < priority)) priority = wish->priority;
    if (priority < 0) continue;
    AxisSbp* const known = Kept(node.outputs[i], axis.name);
    if (known != nullptr) {
      *known = {axis.name, first, priority};
    } else {
      kept_[node.outputs[i]].push_back({axis.name, first, priority});
    }
  }
}

// A split along two axes is a split into the product of their sizes. Rules that need divisibility must allow that too:
// CheckNdSignature of the results of OnAxis, from the known signatures.
absl::StatusOr<bool> CandidateFinder::Nests(NodeId node, const std::vector<const Signature*>& per_axis) {
  const std::vector<Axis>& axes = graph_.node(node).placement->axes();
  for (size_t i = 0; i < per_axis.size(); ++i) {
    if (!HasSplit(*per_axis[i])) continue;
    int parts = axes[i].size;
    for (size_t j = 0; j < i; ++j) {
      if (*per_axis[j] == *per_axis[i]) parts *= axes[j].size;
    }
    if (parts == axes[i].size) continue;
    OF_ASSIGN_OR_RETURN(const std::vector<Signature>* const all, Signatures(node, parts));
    if (std::find(all->begin(), all->end(), *per_axis[i]) == all->end()) return false;
  }
  return true;
}

absl::StatusOr<std::vector<Layout>> CandidateFinder::Find(NodeId id) {
  OF_ASSIGN_OR_RETURN(const int group, FindGroup(id));
  return groups_[group].layouts;
}

// The input of Combinations().
std::vector<int> CandidateFinder::GroupKey(const Node& node) {
  std::vector<int> key = alike_.Key(node);
  key.push_back(alike_.Number(AxesText(node.placement->axes())));
  for (ValueId output : node.outputs) {
    const SbpHint& hint = graph_.value(output).hint;
    key.push_back(hint.empty() ? -1 : alike_.Number(ToString(hint)));
  }
  for (ValueId input : node.inputs) key.push_back(kept_[input].empty() ? -1 : alike_.Number(ToString(kept_[input])));
  for (const Axis& axis : node.placement->axes()) {
    for (ValueId input : node.inputs) key.push_back(own_.Has(input, axis.name));
    for (ValueId output : node.outputs) key.push_back(own_.Has(output, axis.name));
  }
  return key;
}

absl::StatusOr<int> CandidateFinder::FindGroup(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<int> key = GroupKey(node);
  if (const auto known = group_of_.find(key); known != group_of_.end()) {
    const Group& group = groups_[known->second];
    for (size_t i = 0; i < node.outputs.size(); ++i) kept_[node.outputs[i]] = group.kept[i];
    return known->second;
  }
  OF_ASSIGN_OR_RETURN(std::vector<Layout> layouts, Combinations(id));
  Group group{std::move(layouts), {}, all_, considered_};
  for (ValueId output : node.outputs) group.kept.push_back(kept_[output]);
  groups_.push_back(std::move(group));
  return group_of_.emplace(std::move(key), static_cast<int>(groups_.size()) - 1).first->second;
}

// Splits that cannot be nested yield too: the weakest first, and among equals kept splits before requested ones.
absl::StatusOr<std::vector<Layout>> CandidateFinder::Combinations(NodeId id) {
  const Node& node = graph_.node(id);
  const std::set<int> priorities = Priorities(node);
  for (auto priority = priorities.rbegin(); priority != priorities.rend(); ++priority) {
    for (const int kept : {*priority, *priority - 1}) {
      OF_ASSIGN_OR_RETURN(std::vector<Layout> layouts, CombinationsDownTo(id, {*priority, kept}));
      if (!layouts.empty()) return layouts;
      for (ValueId output : node.outputs) Forget(output);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Where(node), ": the splits asked for cannot be nested on ", node.placement->ToString()));
}

absl::StatusOr<std::vector<Layout>> CandidateFinder::CombinationsDownTo(NodeId id, const Weakest& weakest) {
  const Node& node = graph_.node(id);
  const std::vector<Axis>& axes = node.placement->axes();
  std::vector<std::vector<Signature>> lists;
  for (const Axis& axis : axes) {
    OF_ASSIGN_OR_RETURN(std::vector<Signature> list, OnAxis(id, axis, weakest));
    lists.push_back(std::move(list));
  }
  all_ = NumCombinations(lists);
  Cap(lists, kMaxCandidates);
  considered_ = NumCombinations(lists);
  // The variable decides: its own candidates leave no rank empty unless annotations do.
  OF_ASSIGN_OR_RETURN(const OpDef* const op, ops_.Get(node.op));
  const bool follows_variables = !op->mutates.empty();
  std::vector<Layout> full, with_empty_ranks;
  std::vector<size_t> index(axes.size(), 0);
  while (true) {
    std::vector<const Signature*> per_axis;
    for (size_t i = 0; i < axes.size(); ++i) per_axis.push_back(&lists[i][index[i]]);
    OF_ASSIGN_OR_RETURN(const bool nests, Nests(id, per_axis));
    if (nests) {
      Layout layout = Combine(per_axis, node.inputs.size(), node.outputs.size());
      const bool leaves_empty = !follows_variables && LeavesRanksEmpty(graph_, node, layout);
      (leaves_empty ? with_empty_ranks : full).push_back(std::move(layout));
    }
    size_t axis = axes.size();  // count up, last axis fastest
    while (axis > 0 && ++index[axis - 1] == lists[axis - 1].size()) index[--axis] = 0;
    if (axis == 0) break;
  }
  return full.empty() ? with_empty_ranks : full;
}

}  // namespace oneflow
