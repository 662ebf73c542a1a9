#include "sbp/boxing_group.h"

#include <utility>
#include <vector>

#include "sbp/boxing_geometry.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

// How many axes, of more than one rank, cut dimension `dim`.
int NumCuts(const DistType& dist, int dim) {
  int cuts = 0;
  for (int a = 0; a < dist.placement.num_axes(); ++a) {
    cuts += dist.placement.axes()[a].size > 1 && dist.sbp[a].is_split() && dist.sbp[a].dim() == dim;
  }
  return cuts;
}

// Pairs (axis of `from`, axis of `to`) that match and on which nothing changes.
std::vector<std::pair<int, int>> KeptAxes(const DistType& from, const DistType& to) {
  const AxisRoles roles = RolesOf(from, to);
  std::vector<std::pair<int, int>> kept;
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    const int b = roles.match_of_from[a];
    if (b == AxisRoles::kNone || from.sbp[a] != to.sbp[b]) continue;
    if (from.sbp[a].is_split() && from.placement.axes()[a].size > 1) {
      if (NumCuts(from, from.sbp[a].dim()) > 1 || NumCuts(to, from.sbp[a].dim()) > 1) continue;
    }
    kept.push_back({a, b});
  }
  return kept;
}

bool AgreeOnCoordinates(const Placement& from, const Placement& to, const std::vector<std::pair<int, int>>& kept) {
  if (from == to) return true;
  for (int i = 0; i < from.size(); ++i) {
    const int j = to.IndexOf(from.ranks()[i]);
    if (j < 0) continue;
    const std::vector<int> x = from.Coordinates(i), y = to.Coordinates(j);
    for (const auto& [a, b] : kept) {
      if (x[a] != y[b]) return false;
    }
  }
  return true;
}

// What is left of `dist` with each fixed axis at its coordinate; -1: the axis stays.
DistType Restrict(const DistType& dist, const std::vector<int>& fixed) {
  std::vector<Axis> axes;
  NdSbp sbp;
  for (int a = 0; a < dist.placement.num_axes(); ++a) {
    if (fixed[a] >= 0) continue;
    axes.push_back(dist.placement.axes()[a]);
    sbp.push_back(dist.sbp[a]);
  }
  const Placement left(axes, std::vector<int>([&] {
                         std::vector<int> ranks;
                         for (int i = 0; i < dist.placement.size(); ++i) {
                           const std::vector<int> at = dist.placement.Coordinates(i);
                           bool inside = true;
                           for (size_t a = 0; a < at.size(); ++a)
                             inside = inside && (fixed[a] < 0 || fixed[a] == at[a]);
                           if (inside) ranks.push_back(dist.placement.ranks()[i]);
                         }
                         return ranks;
                       }()));
  return {left, std::move(sbp)};
}

}  // namespace

BoxingGroup GroupOf(const Shape& shape, const DistType& from, const DistType& to, int rank) {
  const std::vector<std::pair<int, int>> kept = KeptAxes(from, to);
  if (kept.empty() || !AgreeOnCoordinates(from.placement, to.placement, kept)) return {shape, from, to};
  const int source = from.placement.IndexOf(rank), target = to.placement.IndexOf(rank);
  const std::vector<int> at = source >= 0 ? from.placement.Coordinates(source) : to.placement.Coordinates(target);
  std::vector<int> fixed_from(from.placement.num_axes(), -1), fixed_to(to.placement.num_axes(), -1);
  std::vector<int64_t> dims = shape.dims();
  for (const auto& [a, b] : kept) {
    const int coordinate = source >= 0 ? at[a] : at[b];
    fixed_from[a] = fixed_to[b] = coordinate;
    if (!from.sbp[a].is_split()) continue;
    int64_t& size = dims[from.sbp[a].dim()];
    size = BalancedPart(size, from.placement.axes()[a].size, coordinate).second;
  }
  return {Shape(std::move(dims)), Restrict(from, fixed_from), Restrict(to, fixed_to)};
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

}  // namespace oneflow
