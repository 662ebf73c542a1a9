#include "sbp/host_axes.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sbp/lattice.h"

namespace oneflow {
namespace {

constexpr absl::string_view kBetween = "_hosts", kInside = "_inside";

// `dist` with axis `axis` as two, of which the inner has `inside` coordinates. REQUIRES: `inside` divides the size.
DistType Factored(const DistType& dist, int axis, int inside) {
  std::vector<Axis> axes = dist.placement.axes();
  NdSbp sbp = dist.sbp;
  const Axis whole = axes[axis];
  axes[axis] = {absl::StrCat(whole.name, kBetween), whole.size / inside};
  axes.insert(axes.begin() + axis + 1, {absl::StrCat(whole.name, kInside), inside});
  sbp.insert(sbp.begin() + axis, sbp[axis]);
  return {Placement(std::move(axes), dist.placement.ranks()), std::move(sbp)};
}

// The factors of axis `name` among `axes`; null for both if one is missing.
std::pair<const Axis*, const Axis*> FactorsAmong(const std::vector<Axis>& axes, absl::string_view name) {
  const Axis *between = nullptr, *inside = nullptr;
  for (const Axis& axis : axes) {
    const absl::string_view other = axis.name;
    if (other.size() <= name.size() || !absl::StartsWith(other, name)) continue;
    if (other.substr(name.size()) == kBetween) between = &axis;
    if (other.substr(name.size()) == kInside) inside = &axis;
  }
  if (between == nullptr || inside == nullptr) return {nullptr, nullptr};
  return {between, inside};
}

bool HasFactors(const std::vector<Axis>& axes) {
  return std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return absl::EndsWith(axis.name, kInside); });
}

// Whether a split along the axis is the same split along its factors: all parts are even.
bool SplitsEvenly(const Shape& shape, const DistType& dist, int axis) {
  if (!dist.sbp[axis].is_split()) return true;
  int64_t parts = 1;
  for (size_t a = 0; a < dist.sbp.size(); ++a) {
    if (dist.sbp[a] == dist.sbp[axis]) parts *= dist.placement.axes()[a].size;
  }
  return shape[dist.sbp[axis].dim()] % parts == 0;
}

// `dist` with every axis factored whose factors are among `others`.
DistType WithFactorsOf(const Shape& shape, DistType dist, const std::vector<Axis>& others) {
  for (int a = dist.placement.num_axes() - 1; a >= 0; --a) {
    const Axis& axis = dist.placement.axes()[a];
    const auto [between, inside] = FactorsAmong(others, axis.name);
    if (between == nullptr || between->size * inside->size != axis.size || !SplitsEvenly(shape, dist, a)) continue;
    dist = Factored(dist, a, inside->size);
  }
  return dist;
}

// The coordinates of one host along the axis, if every host that the axis leads to from rank 0 of the placement has as
// many; 0 if the axis has no factors.
int RanksInside(const Placement& placement, const Lattice& lattice, int axis, const Topology& topology) {
  const int size = placement.axes()[axis].size;
  int stride = 1;
  for (int a = axis + 1; a < placement.num_axes(); ++a) stride *= placement.axes()[a].size;
  int inside = 0;
  for (int c = 0; c < size; c += inside) {
    const int rank = placement.ranks()[static_cast<size_t>(c) * stride];
    const std::optional<CoordinateBox> box = lattice.Within(topology.RanksWithin(Distance::kHost, rank));
    if (!box.has_value()) return 0;
    const auto [first, end] = (*box)[axis];
    if (c == 0) inside = end - first;
    if (first != c || end - first != inside || inside == 1 || inside == size) return 0;
  }
  return inside;
}

}  // namespace

bool SpansHosts(const Placement& placement, const Topology& topology) {
  if (topology.num_hosts() == 1) return false;
  const auto [first, end] = topology.RanksWithin(Distance::kHost, placement.ranks()[0]);
  return std::any_of(placement.ranks().begin(), placement.ranks().end(),
                     [first = first, end = end](int rank) { return rank < first || rank >= end; });
}

std::vector<bool> OnOneHost(const Placement& placement, std::vector<bool> axes, const Topology& topology) {
  const std::optional<Lattice> lattice = Lattice::Of(placement);
  for (int rank : {placement.ranks().front(), placement.ranks().back()}) {
    const std::optional<CoordinateBox> box =
        lattice.has_value() ? lattice->Within(topology.RanksWithin(Distance::kHost, rank)) : std::nullopt;
    for (size_t a = 0; a < axes.size(); ++a) {
      const int size = placement.axes()[a].size;
      axes[a] = axes[a] && box.has_value() && (*box)[a] == std::make_pair(0, size);
    }
  }
  return axes;
}

std::vector<int> HostFactors(const Placement& placement, const std::vector<bool>& axes, const Topology& topology) {
  std::vector<int> factors(axes.size(), 0);
  const std::optional<Lattice> lattice = Lattice::Of(placement);
  if (!lattice.has_value()) return factors;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a]) factors[a] = RanksInside(placement, *lattice, static_cast<int>(a), topology);
  }
  return factors;
}

DistType Factored(DistType dist, const std::vector<int>& factors) {
  for (int a = static_cast<int>(factors.size()) - 1; a >= 0; --a) {
    if (factors[a] > 0) dist = Factored(dist, a, factors[a]);
  }
  return dist;
}

std::optional<std::pair<DistType, DistType>> OnCommonAxes(const Shape& shape, const DistType& from,
                                                          const DistType& to) {
  const bool of_from = HasFactors(from.placement.axes()), of_to = HasFactors(to.placement.axes());
  if (of_from == of_to) return std::nullopt;
  return std::make_pair(of_to ? WithFactorsOf(shape, from, to.placement.axes()) : from,
                        of_from ? WithFactorsOf(shape, to, from.placement.axes()) : to);
}

}  // namespace oneflow
