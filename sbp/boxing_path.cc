// The way from one distributed type to another. One step does it, at the least possible volume, unless addends are to
// be combined and the result copied (or moved to other ranks): then it pays to combine each element in one place first.
// The places tried are
//
//   on the producers' side   every reduced axis becomes a split: P -> S(d), a reduce-scatter of whatever the rank holds
//   on the consumers' side   every copied axis becomes a split first: B <- S(d)
//   at coordinate 0          of those axes, where no dimension is large enough to give every rank a part (scalars)
//
// for every dimension d, and the cheapest is taken. If another axis inside a reduced one splits the same dimension, the
// reduced axes are moved inside it (a reordered placement of the same ranks): each rank then keeps a part of what it
// holds already.
//
// Where axes lead to several hosts, hierarchical ways are tried too; an axis that also has ranks inside a host is taken
// as two (host_axes.h):
//
//   P -> B      (P,P) -> (P,S(d)) on every host -> (B,S(d)) between hosts, part by part -> (B,B) on every host
//   P -> S(d)   (P,P) -> (P,S(d)) -> (S(d),S(d))
//   S -> B      (S(d),S(d)) -> (B,S(d)) -> (B,B)
//
// In total they move as much or a little more, but between hosts only one part of as many as a host has ranks.
//
// Ways are compared in seconds; bytes break ties.
#include <algorithm>
#include <limits>
#include <utility>

#include "sbp/boxing.h"
#include "sbp/boxing_check.h"
#include "sbp/boxing_geometry.h"
#include "sbp/boxing_price.h"
#include "sbp/host_axes.h"

namespace oneflow {
namespace {

struct Cost {
  double seconds = 0;
  int64_t bytes = 0;

  Cost operator+(const Cost& o) const { return {seconds + o.seconds, bytes + o.bytes}; }
  // Sums of the same times in another order must not decide: 1e-9 is far above rounding and far below any real
  // difference.
  bool operator<(const Cost& o) const {
    if (seconds < o.seconds * (1 - 1e-9)) return true;
    return !(o.seconds < seconds * (1 - 1e-9)) && bytes < o.bytes;
  }
};

constexpr Cost kNoWay = {std::numeric_limits<double>::infinity(), std::numeric_limits<int64_t>::max()};

struct Route {
  std::vector<DistType> types;
  Cost cost = kNoWay;
};

Cost CostOfStep(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology) {
  const StepPrice price = PriceOf(type, from, to, topology);
  return {price.seconds, price.bytes};
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
  // Counts in the new order, and keeps the index in the old one: each coordinate is worth its axis' old stride.
  std::vector<int> strides(order.size(), 1);
  for (size_t k = 0; k < order.size(); ++k) {
    for (int a = order[k] + 1; a < dist.placement.num_axes(); ++a) strides[k] *= dist.placement.axes()[a].size;
  }
  std::vector<int> ranks, coordinates(order.size(), 0);
  ranks.reserve(dist.placement.size());
  int index = 0;
  for (int i = 0; i < dist.placement.size(); ++i) {
    ranks.push_back(dist.placement.ranks()[index]);
    for (int k = static_cast<int>(order.size()) - 1; k >= 0; --k) {
      index += strides[k];
      if (++coordinates[k] < axes[k].size) break;
      index -= std::exchange(coordinates[k], 0) * strides[k];
    }
  }
  return {Placement(std::move(axes), std::move(ranks)), std::move(sbp)};
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

// Collects the types that differ from `base` by a split dimension on every `chosen` axis, and perhaps by what `other`
// (or null) says on the rest.
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

// Ways from `from` to `to` along host axes, one step after another.
class Hierarchy {
 public:
  Hierarchy(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology)
      : type_(type), from_(from), to_(to), topology_(topology) {}

  // The cheapest such way; kNoWay if hosts have no part in it. REQUIRES: the same placement.
  Route Cheapest() {
    if (!SpansHosts(from_.placement, topology_)) return {};
    const AxisRoles roles = RolesOf(from_, to_);
    std::vector<bool> axes = roles.num_addends > 1 ? roles.reduced : roles.copied;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (!axes[a] && from_.sbp[a] != to_.sbp[a]) return {};
      if (axes[a] && to_.sbp[a].is_partial()) return {};
    }
    const bool splits = roles.num_copies == 1, sums = roles.num_addends > 1;
    const std::vector<int> factors = HostFactors(from_.placement, axes, topology_);
    const DistType from = Factored(from_, factors), to = Factored(to_, factors);
    for (int a = static_cast<int>(factors.size()) - 1; a >= 0; --a) {
      if (factors[a] > 0) axes.insert(axes.begin() + a, true);
    }
    const std::vector<bool> inner = OnOneHost(from.placement, axes, topology_);
    if (inner == axes || std::none_of(inner.begin(), inner.end(), [](bool b) { return b; })) return {};
    for (int d = 0; d < type_.shape.rank(); ++d) {
      if (sums && splits) {
        Consider(SplitAlong(from, inner, d), nullptr);
      } else if (sums) {
        const DistType parts = SplitAlong(to, inner, d);
        Consider(SplitAlong(from, inner, d), &parts);
      } else {
        Consider(SplitAlong(to, inner, d), nullptr);
      }
    }
    return best_;
  }

 private:
  static DistType SplitAlong(DistType dist, const std::vector<bool>& inner, int d) {
    for (size_t a = 0; a < inner.size(); ++a) {
      if (inner[a]) dist.sbp[a] = Sbp::Split(d);
    }
    return Aligned(std::move(dist), inner);
  }

  bool OneStep(const DistType& from, const DistType& to) const {
    const auto common = OnCommonAxes(type_.shape, from, to);
    return OneStepSuffices(common.has_value() ? RolesOf(common->first, common->second) : RolesOf(from, to));
  }

  // From the beginning to `first` in a step, then by the cheapest way to `second`, if given, and on to the end in a
  // step.
  void Consider(const DistType& first, const DistType* second) {
    const DistType& last = second == nullptr ? first : *second;
    if (!OneStep(from_, first) || !OneStep(last, to_)) return;
    Route route{{first}, CostOfStep(type_, from_, first, topology_)};
    if (!(route.cost < best_.cost)) return;
    if (second != nullptr) {
      const absl::StatusOr<Route> between = CheapestRoute(type_, first, *second, topology_);
      if (!between.ok()) return;
      route.types.insert(route.types.end(), between->types.begin(), between->types.end());
      route.cost = route.cost + between->cost;
    }
    if (last != to_) {  // parts on a host may be what is wanted
      route.types.push_back(to_);
      route.cost = route.cost + CostOfStep(type_, last, to_, topology_);
    }
    if (route.cost < best_.cost) best_ = std::move(route);
  }

  const TensorType& type_;
  const DistType& from_;
  const DistType& to_;
  const Topology& topology_;
  Route best_;
};

// From addends of one reduction to those of another: `from` is reduced first, and its sum (or maximum) divided anew.
absl::StatusOr<Route> RouteByValues(const TensorType& type, const DistType& from, const DistType& to,
                                    const Topology& topology) {
  OF_RETURN_IF_ERROR(ReductionOf(from, from).status());
  OF_RETURN_IF_ERROR(ReductionOf(to, to).status());
  Route best;
  for (int d = -1; d < type.shape.rank(); ++d) {
    DistType value = from;
    for (Sbp& sbp : value.sbp) {
      if (sbp.is_partial()) sbp = d < 0 ? Sbp::Broadcast() : Sbp::Split(d);
    }
    OF_ASSIGN_OR_RETURN(Route route, CheapestRoute(type, from, value, topology));
    OF_ASSIGN_OR_RETURN(const Route rest, CheapestRoute(type, value, to, topology));
    route.cost = route.cost + rest.cost;
    route.types.insert(route.types.end(), rest.types.begin(), rest.types.end());
    if (route.cost < best.cost) best = std::move(route);
  }
  return best;
}

// The cheapest way; ties go to the fewer steps, then to the earlier candidate.
absl::StatusOr<Route> CheapestRoute(const TensorType& type, const DistType& from, const DistType& to,
                                    const Topology& topology) {
  OF_RETURN_IF_ERROR(CheckBoxing(type, from, to, topology));
  if (from == to) return Route{{}, {}};
  if (!ReductionOf(from, to).ok()) return RouteByValues(type, from, to, topology);
  const AxisRoles roles = RolesOf(from, to);
  Route best;
  if (OneStepSuffices(roles)) best = {{to}, CostOfStep(type, from, to, topology)};
  const bool same_placement = from.placement == to.placement;
  if (same_placement && (roles.num_addends > 1 || roles.num_copies > 1)) {
    Route hierarchical = Hierarchy(type, from, to, topology).Cheapest();
    if (hierarchical.cost < best.cost) best = std::move(hierarchical);
  }
  if (roles.num_addends == 1 || (roles.num_copies == 1 && same_placement)) return best;

  const auto consider = [&](const Candidates& candidates) {
    for (const DistType& middle : candidates.types()) {
      if (!OneStepSuffices(RolesOf(from, middle)) || !OneStepSuffices(RolesOf(middle, to))) continue;
      const Cost first = CostOfStep(type, from, middle, topology);
      if (best.cost < first) continue;
      const Cost cost = first + CostOfStep(type, middle, to, topology);
      if (cost < best.cost) best = {{middle, to}, cost};
    }
  };
  consider(Candidates(type.shape, from, roles.reduced, same_placement ? &to.sbp : nullptr));
  if (!same_placement && roles.num_copies > 1) consider(Candidates(type.shape, to, roles.copied, nullptr));
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
