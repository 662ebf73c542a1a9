// The way from one distributed type to another. One step does it, at the least possible volume, unless addends are to be combined
// and the result copied (or moved to other ranks): then it pays to combine each element in one place first. The places tried are
//
//   on the producers' side   every reduced axis becomes a split: P -> S(d), a reduce-scatter of whatever the rank holds
//   on the consumers' side   every copied axis becomes a split first: B <- S(d)
//   at coordinate 0          of those axes, where no dimension is large enough to give every rank a part (scalars)
//
// for every dimension d, and the cheapest is taken. If another axis inside a reduced one splits the same dimension, the reduced
// axes are moved inside it (a reordered placement of the same ranks): each rank then keeps a part of what it holds already.
//
// Where some reduced axes stay on a host and others lead to other hosts, the hierarchical way is tried too: (P,P) -> (P,S(d)) on every
// host, -> (B,S(d)) between hosts, each with its own part, -> (B,B) on every host. In total it moves as many bytes, but between hosts only one
// part of as many as a host has ranks.
#include <algorithm>
#include <limits>
#include <utility>

#include "sbp/boxing.h"
#include "sbp/boxing_check.h"
#include "sbp/boxing_geometry.h"

namespace oneflow {
namespace {

struct Cost {
  int64_t bytes = 0;
  double seconds = 0;

  Cost operator+(const Cost& o) const { return {bytes + o.bytes, seconds + o.seconds}; }
  // Sums of the same times in another order must not decide: 1e-9 is far above rounding and far below any real difference.
  bool operator<(const Cost& o) const { return bytes != o.bytes ? bytes < o.bytes : seconds < o.seconds * (1 - 1e-9); }
};

constexpr Cost kNoWay = {std::numeric_limits<int64_t>::max(), std::numeric_limits<double>::infinity()};

struct Route {
  std::vector<DistType> types;
  Cost cost = kNoWay;
};

// What BytesMoved and Seconds would say of the step, without building it.
Cost CostOfStep(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology) {
  BoxingGeometry geometry(type.shape, from, to, topology);
  Cost cost;
  for (int index = 0; index < to.placement.size(); ++index) {
    double seconds = 0;
    const int rank = to.placement.ranks()[index];
    geometry.ForEachBox(index, [&](int source, const int64_t*, const int64_t*, int64_t count) {
      const int source_rank = from.placement.ranks()[source];
      if (source_rank == rank) return;
      const int64_t bytes = count * static_cast<int64_t>(SizeOf(type.dtype));
      const Link link = topology.LinkBetween(source_rank, rank);
      cost.bytes += bytes;
      seconds += link.alpha_s + link.beta_s_per_byte * static_cast<double>(bytes);
    });
    cost.seconds = std::max(cost.seconds, seconds);
  }
  return cost;
}

absl::StatusOr<Route> CheapestRoute(const TensorType& type, const DistType& from, const DistType& to,
                                    const Topology& topology);

bool OneStepSuffices(const AxisRoles& roles) { return roles.num_addends == 1 || roles.num_copies == 1; }

// `dist` on the same ranks, with the axes of `inner` moved behind the others.
DistType MoveInside(const DistType& dist, const std::vector<bool>& inner) {
  std::vector<int> order;
  for (const bool pass : {false, true}) {
    for (size_t a = 0; a < inner.size(); ++a) {
      if (inner[a] == pass) order.push_back(static_cast<int>(a));
    }
  }
  std::vector<Axis> axes;
  NdSbp sbp;
  for (int a : order) {
    axes.push_back(dist.placement.axes()[a]);
    sbp.push_back(dist.sbp[a]);
  }
  const Placement indices(std::move(axes), dist.placement.ranks());  // only to count in the new order
  std::vector<int> ranks, coordinates(order.size());
  for (int i = 0; i < dist.placement.size(); ++i) {
    const std::vector<int> moved = indices.Coordinates(i);
    for (size_t k = 0; k < order.size(); ++k) coordinates[order[k]] = moved[k];
    ranks.push_back(dist.placement.ranks()[dist.placement.IndexAt(coordinates)]);
  }
  return {Placement(indices.axes(), std::move(ranks)), std::move(sbp)};
}

// `dist`, with the `chosen` axes moved inside if an axis inside one of them splits the same dimension.
DistType Aligned(DistType dist, const std::vector<bool>& chosen) {
  for (size_t a = 0; a < chosen.size(); ++a) {
    for (size_t b = a + 1; b < chosen.size(); ++b) {
      if (chosen[a] && !chosen[b] && dist.sbp[a].is_split() && dist.sbp[a] == dist.sbp[b])
        return MoveInside(dist, chosen);
    }
  }
  return dist;
}

// `dist` at coordinate 0 of the `dropped` axes.
DistType AtCoordinateZero(const DistType& dist, const std::vector<bool>& dropped) {
  std::vector<Axis> axes;
  NdSbp sbp;
  for (size_t a = 0; a < dropped.size(); ++a) {
    if (dropped[a]) continue;
    axes.push_back(dist.placement.axes()[a]);
    sbp.push_back(dist.sbp[a]);
  }
  std::vector<int> ranks;
  for (int i = 0; i < dist.placement.size(); ++i) {
    const std::vector<int> coordinates = dist.placement.Coordinates(i);
    bool kept = true;
    for (size_t a = 0; a < dropped.size(); ++a) kept = kept && (!dropped[a] || coordinates[a] == 0);
    if (kept) ranks.push_back(dist.placement.ranks()[i]);
  }
  return {Placement(std::move(axes), std::move(ranks)), std::move(sbp)};
}

// Collects the types that differ from `base` by a split dimension on every `chosen` axis, and perhaps by what `other` (or null)
// says on the rest.
class Candidates {
 public:
  Candidates(const Shape& shape, const DistType& base, const std::vector<bool>& chosen, const NdSbp* other)
      : shape_(shape), base_(base), chosen_(chosen), other_(other), current_(base) {
    int num_chosen = 0, parts = 1;
    for (size_t a = 0; a < chosen.size(); ++a) {
      if (!chosen[a]) continue;
      ++num_chosen;
      parts *= base.placement.axes()[a].size;
    }
    // Up to two axes may choose different dimensions; more choose one together, which keeps the search small.
    same_dim_ = num_chosen > 2;
    Extend(0, -1);
    bool large_enough = false;
    for (int d = 0; d < shape.rank(); ++d) large_enough = large_enough || shape[d] >= parts;
    if (!large_enough) types_.push_back(AtCoordinateZero(base, chosen));
  }

  const std::vector<DistType>& types() const { return types_; }

 private:
  void Extend(size_t axis, int dim) {
    if (axis == chosen_.size()) {
      types_.push_back(Aligned(current_, chosen_));
    } else if (chosen_[axis]) {
      for (int d = 0; d < shape_.rank(); ++d) {
        if (same_dim_ && dim >= 0 && d != dim) continue;
        current_.sbp[axis] = Sbp::Split(d);
        Extend(axis + 1, d);
      }
    } else {
      current_.sbp[axis] = base_.sbp[axis];
      Extend(axis + 1, dim);
      if (other_ == nullptr || (*other_)[axis] == base_.sbp[axis]) return;
      current_.sbp[axis] = (*other_)[axis];
      Extend(axis + 1, dim);
    }
  }

  const Shape& shape_;
  const DistType& base_;
  const std::vector<bool>& chosen_;
  const NdSbp* other_;
  bool same_dim_ = false;
  DistType current_;
  std::vector<DistType> types_;
};

// Of the axes marked in `axes` those along which no two ranks are on different hosts.
std::vector<bool> OnOneHost(const Placement& placement, std::vector<bool> axes, const Topology& topology) {
  for (int index = 0; index < placement.size(); ++index) {
    std::vector<int> first = placement.Coordinates(index);
    for (size_t a = 0; a < axes.size(); ++a) {
      if (!axes[a]) continue;
      const int own = std::exchange(first[a], 0);
      const int other = placement.ranks()[placement.IndexAt(first)];
      first[a] = own;
      axes[a] = topology.HostOf(placement.ranks()[index]) == topology.HostOf(other);
    }
  }
  return axes;
}

// Reduces and copies on every host, with one reduction between hosts in the middle; kNoWay if hosts have no part in it.
Route HierarchicalRoute(const TensorType& type, const DistType& from, const DistType& to,
                        const std::vector<bool>& reduced, const Topology& topology) {
  const std::vector<bool> inner = OnOneHost(from.placement, reduced, topology);
  if (inner == reduced || std::none_of(inner.begin(), inner.end(), [](bool b) { return b; })) return {};
  for (size_t a = 0; a < reduced.size(); ++a) {
    if (reduced[a] ? !to.sbp[a].is_broadcast() : from.sbp[a] != to.sbp[a]) return {};
  }
  Route best;
  for (int d = 0; d < type.shape.rank(); ++d) {
    DistType addends = from, sums = to;
    for (size_t a = 0; a < inner.size(); ++a) {
      if (inner[a]) addends.sbp[a] = sums.sbp[a] = Sbp::Split(d);
    }
    addends = Aligned(addends, inner);
    sums = Aligned(sums, inner);
    const absl::StatusOr<Route> between = CheapestRoute(type, addends, sums, topology);
    if (!between.ok()) continue;
    const Cost cost = CostOfStep(type, from, addends, topology) + between->cost + CostOfStep(type, sums, to, topology);
    if (!(cost < best.cost)) continue;
    best = {{addends}, cost};
    best.types.insert(best.types.end(), between->types.begin(), between->types.end());
    best.types.push_back(to);
  }
  return best;
}

// The cheapest way; ties go to the fewer steps, then to the earlier candidate.
absl::StatusOr<Route> CheapestRoute(const TensorType& type, const DistType& from, const DistType& to,
                                    const Topology& topology) {
  OF_RETURN_IF_ERROR(CheckBoxing(type, from, to, topology));
  if (from == to) return Route{{}, {}};
  OF_RETURN_IF_ERROR(ReductionOf(from, to).status());
  const AxisRoles roles = RolesOf(from, to);
  Route best;
  if (OneStepSuffices(roles)) best = {{to}, CostOfStep(type, from, to, topology)};
  const bool same_placement = from.placement == to.placement;
  if (roles.num_addends == 1 || (roles.num_copies == 1 && same_placement)) return best;

  const auto consider = [&](const Candidates& candidates) {
    for (const DistType& middle : candidates.types()) {
      if (!OneStepSuffices(RolesOf(from, middle)) || !OneStepSuffices(RolesOf(middle, to))) continue;
      const Cost first = CostOfStep(type, from, middle, topology);
      if (first.bytes > best.cost.bytes) continue;
      const Cost cost = first + CostOfStep(type, middle, to, topology);
      if (cost < best.cost) best = {{middle, to}, cost};
    }
  };
  consider(Candidates(type.shape, from, roles.reduced, same_placement ? &to.sbp : nullptr));
  if (!same_placement && roles.num_copies > 1) consider(Candidates(type.shape, to, roles.copied, nullptr));
  if (same_placement && roles.num_copies > 1) {
    Route hierarchical = HierarchicalRoute(type, from, to, roles.reduced, topology);
    if (hierarchical.cost < best.cost) best = std::move(hierarchical);
  }
  return best;
}

}  // namespace

absl::StatusOr<std::vector<DistType>> BoxingPath(const TensorType& type, const DistType& from, const DistType& to,
                                                 const Topology& topology) {
  OF_ASSIGN_OR_RETURN(Route route, CheapestRoute(type, from, to, topology));
  return std::move(route.types);
}

double BoxingSeconds(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology) {
  const absl::StatusOr<Route> route = CheapestRoute(type, from, to, topology);
  return route.ok() ? route->cost.seconds : std::numeric_limits<double>::infinity();
}

}  // namespace oneflow
