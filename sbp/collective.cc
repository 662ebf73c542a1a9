#include "sbp/collective.h"

#include <algorithm>

#include "sbp/boxing_geometry.h"
#include "sbp/host_axes.h"

namespace oneflow {
namespace {

bool AllLocal(const BoxingStep& step) {
  for (size_t i = 0; i < step.pieces.size(); ++i) {
    for (const BoxingPiece& piece : step.pieces[i]) {
      if (step.from.placement.ranks()[piece.source] != step.to.placement.ranks()[i]) return false;
    }
  }
  return true;
}

// Whether every rank has the same coordinates on the matching axes of both placements; the axes may be reordered.
bool SameGrid(const Placement& from, const Placement& to, const AxisRoles& roles) {
  if (from == to) return true;
  if (from.size() != to.size()) return false;
  if (std::count(roles.match_of_from.begin(), roles.match_of_from.end(), AxisRoles::kNone) > 0) return false;
  if (std::count(roles.match_of_to.begin(), roles.match_of_to.end(), AxisRoles::kNone) > 0) return false;
  for (int i = 0; i < from.size(); ++i) {
    const int j = to.IndexOf(from.ranks()[i]);
    if (j < 0) return false;
    const std::vector<int> before = from.Coordinates(i), after = to.Coordinates(j);
    for (int a = 0; a < from.num_axes(); ++a) {
      if (before[a] != after[roles.match_of_from[a]]) return false;
    }
  }
  return true;
}

// Whether each changed split lies inside the unchanged splits of its dimension, so that the ranks which agree on the
// unchanged axes exchange among themselves only.
bool ChangedSplitsAreInnermost(const DistType& dist, const std::vector<bool>& changed) {
  for (size_t a = 0; a < changed.size(); ++a) {
    if (!changed[a] || !dist.sbp[a].is_split()) continue;
    for (size_t b = a + 1; b < changed.size(); ++b) {
      if (!changed[b] && dist.placement.axes()[b].size > 1 && dist.sbp[b] == dist.sbp[a]) return false;
    }
  }
  return true;
}

// The unchanged splits of `from` and of `to`, in nesting order, must be the same.
bool UnchangedSplitsNestAlike(const DistType& from, const AxisRoles& roles, const std::vector<bool>& changed_to) {
  int previous = -1;
  for (size_t a = 0; a < roles.match_of_from.size(); ++a) {
    const int b = roles.match_of_from[a];
    if (changed_to[b] || !from.sbp[a].is_split()) continue;
    if (b < previous) return false;
    previous = b;
  }
  return true;
}

// The one collective of all changed axes of two types on the same grid, or kNone.
Collective OnSameGrid(const DistType& from, const DistType& to, const AxisRoles& roles) {
  const int num_axes = from.placement.num_axes();
  std::vector<bool> changed_from(num_axes, false), changed_to(num_axes, false);
  Collective result = Collective::kNone;
  bool first = true;
  for (int a = 0; a < num_axes; ++a) {
    const int b = roles.match_of_from[a];
    if (from.sbp[a] == to.sbp[b] || from.placement.axes()[a].size == 1) continue;
    const Collective collective = CollectiveOf(from.sbp[a], to.sbp[b]);
    if (!first && collective != result) return Collective::kNone;
    result = collective;
    first = false;
    changed_from[a] = changed_to[b] = true;
  }
  const bool separable = ChangedSplitsAreInnermost(from, changed_from) && ChangedSplitsAreInnermost(to, changed_to) &&
                         UnchangedSplitsNestAlike(from, roles, changed_to);
  return separable ? result : Collective::kNone;
}

bool IsBroadcast(const Shape& shape, const BoxingStep& step) {
  std::vector<int> readers(step.from.placement.size(), 0);
  for (size_t i = 0; i < step.pieces.size(); ++i) {
    const Region shard = ShardRegion(shape, step.to, static_cast<int>(i));
    if (shard.count() == 0) continue;
    if (step.pieces[i].size() != 1 || !(step.pieces[i][0].region == shard)) return false;
    ++readers[step.pieces[i][0].source];
  }
  return *std::max_element(readers.begin(), readers.end()) > 1;
}

}  // namespace

const char* Name(Collective collective) {
  constexpr const char* kNames[] = {"none",       "all-reduce", "reduce-scatter", "all-gather",
                                    "all-to-all", "broadcast",  "local"};
  return kNames[static_cast<int>(collective)];
}

Collective CollectiveOf(const Sbp& before, const Sbp& after) {
  if (before.is_partial() && after.is_split()) return Collective::kReduceScatter;
  if (before.is_partial() && after.is_broadcast()) return Collective::kAllReduce;
  if (before.is_split() && after.is_broadcast()) return Collective::kAllGather;
  if (before.is_split() && after.is_split() && before != after) return Collective::kAllToAll;
  return Collective::kNone;
}

Collective RecogniseCollective(const Shape& shape, const BoxingStep& step) {
  if (AllLocal(step)) return Collective::kLocal;
  const auto common = OnCommonAxes(shape, step.from, step.to);
  const DistType& from = common.has_value() ? common->first : step.from;
  const DistType& to = common.has_value() ? common->second : step.to;
  const AxisRoles roles = RolesOf(from, to);
  if (SameGrid(from.placement, to.placement, roles)) {
    if (const Collective collective = OnSameGrid(from, to, roles); collective != Collective::kNone) return collective;
  }
  return IsBroadcast(shape, step) ? Collective::kBroadcast : Collective::kNone;
}

}  // namespace oneflow
