#include "sbp/boxing_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sbp/boxing_geometry.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

// Whether all axes before `axis` that cut its dimension are kept.
bool IsOutermost(const DistType& dist, int axis, const std::vector<bool>& kept) {
  for (int a = 0; a < axis; ++a) {
    if (!kept[a] && dist.placement.axes()[a].size > 1 && dist.sbp[a] == dist.sbp[axis]) return false;
  }
  return true;
}

// How far apart the ranks of neighbouring coordinates stand in the list of a placement, by axis.
std::vector<int> ListStrides(const Placement& placement) {
  std::vector<int> strides(placement.num_axes(), 1);
  for (int a = placement.num_axes() - 1; a > 0; --a) strides[a - 1] = strides[a] * placement.axes()[a].size;
  return strides;
}

// Pairs (axis of `from`, axis of `to`) that match and on which nothing changes, with the same coordinates of each rank
// in both. A cut has to be of the same part of the tensor in both, so all around it have to be kept too.
std::vector<std::pair<int, int>> KeptAxes(const DistType& from, const DistType& to) {
  const AxisRoles roles = RolesOf(from, to);
  std::vector<std::pair<int, int>> kept;
  std::vector<bool> kept_from(from.placement.num_axes(), false), kept_to(to.placement.num_axes(), false);
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    const int b = roles.match_of_from[a];
    if (b == AxisRoles::kNone || from.sbp[a] != to.sbp[b]) continue;
    if (from.sbp[a].is_split() && from.placement.axes()[a].size > 1) {
      if (!IsOutermost(from, a, kept_from) || !IsOutermost(to, b, kept_to)) continue;
    }
    if (!AgreeAlong(from.placement, a, to.placement, b)) continue;
    kept.push_back({a, b});
    kept_from[a] = kept_to[b] = true;
  }
  return kept;
}

// What is left of `dist` with each fixed axis at its coordinate; -1: the axis stays.
DistType Restrict(const DistType& dist, const std::vector<int>& fixed) {
  const std::vector<int> strides = ListStrides(dist.placement);
  std::vector<Axis> axes;
  NdSbp sbp;
  std::vector<int> places = {0};  // in the list of ranks
  for (int a = 0; a < dist.placement.num_axes(); ++a) {
    const Axis& axis = dist.placement.axes()[a];
    std::vector<int> next;
    for (const int place : places) {
      const int first = fixed[a] < 0 ? 0 : fixed[a], end = fixed[a] < 0 ? axis.size : fixed[a] + 1;
      for (int c = first; c < end; ++c) next.push_back(place + c * strides[a]);
    }
    places = std::move(next);
    if (fixed[a] >= 0) continue;
    axes.push_back(axis);
    sbp.push_back(dist.sbp[a]);
  }
  for (int& place : places) place = dist.placement.ranks()[place];
  return {Placement(std::move(axes), std::move(places)), std::move(sbp)};
}

// Ranks have one another's places, and nothing else changes.
bool IsTurned(const DistType& from, const DistType& to) {
  return from.placement != to.placement && from.sbp == to.sbp && from.placement.num_axes() <= 32 &&
         HasRanksOf(from.placement, to.placement);
}

}  // namespace

BoxingGroups::BoxingGroups(const Shape& shape, const DistType& from, const DistType& to)
    : shape_(shape), from_(from), to_(to), kept_(KeptAxes(from, to)) {}

BoxingGroup BoxingGroups::Of(int rank) const {
  if (kept_.empty()) return {shape_, from_, to_};
  const int source = from_.placement.IndexOf(rank);
  const std::vector<int> at =
      source >= 0 ? from_.placement.Coordinates(source) : to_.placement.Coordinates(to_.placement.IndexOf(rank));
  std::vector<int> fixed_from(from_.placement.num_axes(), -1), fixed_to(to_.placement.num_axes(), -1);
  std::vector<int64_t> dims = shape_.dims();
  for (const auto& [a, b] : kept_) {
    const int coordinate = source >= 0 ? at[a] : at[b];
    fixed_from[a] = fixed_to[b] = coordinate;
    if (!from_.sbp[a].is_split()) continue;
    int64_t& size = dims[from_.sbp[a].dim()];
    size = BalancedPart(size, from_.placement.axes()[a].size, coordinate).second;
  }
  return {Shape(std::move(dims)), Restrict(from_, fixed_from), Restrict(to_, fixed_to)};
}

BoxingGroup GroupOf(const Shape& shape, const DistType& from, const DistType& to, int rank) {
  return BoxingGroups(shape, from, to).Of(rank);
}

std::vector<BoxingGroup> DifferentGroups(const Shape& shape, const DistType& from, const DistType& to) {
  const BoxingGroups of(shape, from, to);
  std::vector<BoxingGroup> groups;
  for (const int corner : CornersOf(to.placement)) {
    BoxingGroup group = of.Of(to.placement.ranks()[corner]);
    const bool is_new = std::none_of(groups.begin(), groups.end(),
                                     [&](const BoxingGroup& other) { return other.shape == group.shape; });
    if (is_new) groups.push_back(std::move(group));
  }
  return groups;
}

bool IsLocal(const DistType& from, const DistType& to) {
  if (from.placement != to.placement) return false;
  bool local = true, moved = false;
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    if (from.placement.axes()[a].size == 1 || from.sbp[a] == to.sbp[a]) continue;
    local = local && from.sbp[a].is_broadcast() && !to.sbp[a].is_broadcast();
    moved = true;
  }
  if (!local || !moved) return local;
  // A new cut of a dimension that a later axis cuts already moves what that axis holds.
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    if (from.sbp[a] == to.sbp[a] || !to.sbp[a].is_split()) continue;
    for (int b = a + 1; b < from.placement.num_axes(); ++b) {
      if (from.sbp[b].is_split() && from.sbp[b].dim() == to.sbp[a].dim()) return false;
    }
  }
  return true;
}

std::optional<BoxingReach> ReachOf(const Shape& shape, const DistType& from, const DistType& to) {
  if (IsTurned(from, to)) {
    BoxingReach reach = {.some = true};
    std::vector<int64_t> least = shape.dims();  // of what a rank has
    for (int a = 0; a < from.placement.num_axes(); ++a) {
      if (!AgreeAlong(from.placement, a, to.placement, a)) reach.axes |= uint32_t{1} << a;
      if (from.sbp[a].is_split()) least[from.sbp[a].dim()] /= from.placement.axes()[a].size;
    }
    reach.one = std::count(least.begin(), least.end(), 0) == 0;
    return reach;
  }
  if (from.placement != to.placement || from.placement.num_axes() > 32 || shape.count() == 0) return std::nullopt;
  BoxingReach reach;
  std::vector<int> cut_by(shape.rank(), -1);  // the only axis that cuts a dimension, before or after
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    const int size = from.placement.axes()[a].size;
    if (size == 1) continue;
    for (const Sbp& sbp : {from.sbp[a], to.sbp[a]}) {
      if (!sbp.is_split()) continue;
      int& cut = cut_by[sbp.dim()];
      if ((cut >= 0 && cut != a) || shape.dims()[sbp.dim()] < size) return std::nullopt;
      cut = a;
    }
    if (from.sbp[a] == to.sbp[a]) continue;
    if (to.sbp[a].is_partial()) return std::nullopt;
    if (!from.sbp[a].is_broadcast()) reach.axes |= uint32_t{1} << a;
  }
  return reach;
}

std::vector<std::pair<int, int>> TurnOf(const Placement& from, const Placement& to) {
  std::vector<std::pair<int, int>> turn;
  for (int i = 0; i < from.size(); ++i) turn.emplace_back(to.ranks()[i], from.ranks()[i]);
  std::sort(turn.begin(), turn.end());
  return turn;
}

}  // namespace oneflow
