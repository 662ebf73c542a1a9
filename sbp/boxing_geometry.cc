#include "sbp/boxing_geometry.h"

#include <unordered_map>

namespace oneflow {
namespace {

int StrideOf(const Placement& placement, int axis) {
  int stride = 1;
  for (int a = placement.num_axes() - 1; a > axis; --a) stride *= placement.axes()[a].size;
  return stride;
}

// offsets x {0, stride, ..., (size-1) * stride}, the new axis fastest.
void MultiplyBy(int size, int stride, std::vector<int>& offsets) {
  std::vector<int> result;
  result.reserve(offsets.size() * size);
  for (int offset : offsets) {
    for (int c = 0; c < size; ++c) result.push_back(offset + c * stride);
  }
  offsets = std::move(result);
}

// Whether no rank can be in both: the numbers of one lie below those of the other.
bool AreApart(const Placement& from, const Placement& to) {
  const auto [from_least, from_most] = std::minmax_element(from.ranks().begin(), from.ranks().end());
  const auto [to_least, to_most] = std::minmax_element(to.ranks().begin(), to.ranks().end());
  return *from_most < *to_least || *to_most < *from_least;
}

bool IsPartialSum(const Sbp& sbp) { return sbp.is_partial() && sbp.reduction() == Reduction::kSum; }

}  // namespace

bool AgreeAlong(const Placement& from, int a, const Placement& to, int b) {
  if (from == to) return a == b;
  if (AreApart(from, to)) return true;
  std::unordered_map<int, int> index_in_to;
  for (int j = 0; j < to.size(); ++j) index_in_to.emplace(to.ranks()[j], j);
  const int size = from.axes()[a].size, stride = StrideOf(from, a), stride_in_to = StrideOf(to, b);
  for (int i = 0; i < from.size(); ++i) {
    const auto it = index_in_to.find(from.ranks()[i]);
    if (it != index_in_to.end() && i / stride % size != it->second / stride_in_to % size) return false;
  }
  return true;
}

AxisRoles RolesOf(const DistType& from, const DistType& to) {
  AxisRoles roles;
  const std::vector<Axis>&from_axes = from.placement.axes(), &to_axes = to.placement.axes();
  roles.match_of_from.assign(from_axes.size(), AxisRoles::kNone);
  roles.match_of_to.assign(to_axes.size(), AxisRoles::kNone);
  for (size_t a = 0; a < from_axes.size(); ++a) {
    for (size_t b = 0; b < to_axes.size(); ++b) {
      if (roles.match_of_to[b] != AxisRoles::kNone || !(from_axes[a] == to_axes[b])) continue;
      roles.match_of_from[a] = static_cast<int>(b);
      roles.match_of_to[b] = static_cast<int>(a);
      break;
    }
  }
  for (size_t a = 0; a < from_axes.size(); ++a) {
    const int match = roles.match_of_from[a];
    const bool kept = match != AxisRoles::kNone && to.sbp[match].is_partial();
    roles.reduced.push_back(from.sbp[a].is_partial() && !kept && from_axes[a].size > 1);
    if (roles.reduced.back()) roles.num_addends *= from_axes[a].size;
  }
  for (size_t b = 0; b < to_axes.size(); ++b) {
    const int match = roles.match_of_to[b];
    const bool had_copies = match != AxisRoles::kNone && from.sbp[match].is_broadcast();
    const bool kept = match != AxisRoles::kNone && ((from.sbp[match].is_partial() && to.sbp[b].is_partial()) ||
                                                    (from.sbp[match].is_mean() && to.sbp[b].is_mean()));
    const bool full = !to.sbp[b].is_split() && !IsPartialSum(to.sbp[b]);
    roles.copied.push_back(full && !had_copies && !kept && to_axes[b].size > 1);
    if (roles.copied.back()) roles.num_copies *= to_axes[b].size;
  }
  return roles;
}

namespace {

// Whether a destination reads its own coordinate alone, of axis `a` and its match.
bool ReadsOwn(const DistType& from, int a, const DistType& to, int match) {
  if (match == AxisRoles::kNone) return false;
  const Sbp &x = from.sbp[a], &y = to.sbp[match];
  if (x.is_mean()) return y.is_mean();
  if (x.is_broadcast()) return !y.is_broadcast() || AgreeAlong(from.placement, a, to.placement, match);
  return y.is_partial() && (x.is_partial() || IsPartialSum(y));
}

}  // namespace

ReadRoles ReadRolesOf(const DistType& from, const DistType& to) {
  const AxisRoles roles = RolesOf(from, to);
  ReadRoles result;
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    const int match = roles.match_of_from[a];
    result.of_from.push_back(ReadsOwn(from, a, to, match) ? ReadRoles::Role::kOwn
                             : from.sbp[a].is_broadcast() ? ReadRoles::Role::kReplica
                                                          : ReadRoles::Role::kAll);
    result.own.push_back(match);
  }
  for (int b = 0; b < to.placement.num_axes(); ++b) {
    const int match = roles.match_of_to[b];
    const bool from_own = match != AxisRoles::kNone && !from.sbp[match].is_broadcast();
    result.zero_of_to.push_back(IsPartialSum(to.sbp[b]) && !from_own);
  }
  return result;
}

BoxingGeometry::BoxingGeometry(const Shape& shape, const DistType& from, const DistType& to, const Topology& topology)
    : shape_(shape), from_(from), to_(to), topology_(topology) {
  const ReadRoles roles = ReadRolesOf(from, to);
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    const int size = from.placement.axes()[a].size;
    const int stride = StrideOf(from.placement, a);
    switch (roles.of_from[a]) {
      case ReadRoles::Role::kAll:
        MultiplyBy(size, stride, all_offsets_);
        break;
      case ReadRoles::Role::kOwn:
        own_axes_.push_back({size, stride, roles.own[a]});
        break;
      case ReadRoles::Role::kReplica:
        MultiplyBy(size, stride, replica_offsets_);
        replica_axes_.push_back({size, stride});
        break;
    }
  }
  for (int b = 0; b < to.placement.num_axes(); ++b) {
    if (roles.zero_of_to[b]) zero_axes_.push_back(b);
  }
  const int rank = shape.rank();
  source_start_.resize(static_cast<size_t>(from.placement.size()) * rank);
  source_extent_.resize(source_start_.size());
  for (int i = 0; i < from.placement.size(); ++i) {
    ShardRegion(shape, from, i, source_start_.data() + i * rank, source_extent_.data() + i * rank);
  }
  start_.resize(rank);
  extent_.resize(rank);
  box_start_.resize(rank);
  box_extent_.resize(rank);
}

int BoxingGeometry::CoordinateOf(int index, int axis) const {
  return index / StrideOf(to_.placement, axis) % to_.placement.axes()[axis].size;
}

bool BoxingGeometry::Reads(int index) const {
  return std::all_of(zero_axes_.begin(), zero_axes_.end(), [&](int axis) { return CoordinateOf(index, axis) == 0; });
}

bool BoxingGeometry::IsRead(int source, int base) const {
  const auto part = [&](const ReadAxis& axis, int of) { return of / axis.stride % axis.size; };
  for (const ReadAxis& axis : own_axes_) {
    if (part(axis, source) != part(axis, base)) return false;
  }
  int first = source;  // of its replicas
  for (const ReadAxis& axis : replica_axes_) first -= part(axis, source) * axis.stride;
  return Nearest(first) == source;
}

bool BoxingGeometry::StartDestination(int index, int& base) {
  if (!Reads(index)) return false;
  base = 0;
  for (const ReadAxis& axis : own_axes_) base += CoordinateOf(index, axis.of_to) * axis.stride;
  own_rank_ = to_.placement.ranks()[index];
  ShardRegion(shape_, to_, index, start_.data(), extent_.data());
  return true;
}

int64_t BoxingGeometry::IntersectWith(int source) {
  const int rank = shape_.rank();
  const int64_t* start = source_start_.data() + static_cast<int64_t>(source) * rank;
  const int64_t* extent = source_extent_.data() + static_cast<int64_t>(source) * rank;
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) {
    box_start_[d] = std::max(start_[d], start[d]);
    box_extent_[d] = std::min(start_[d] + extent_[d], start[d] + extent[d]) - box_start_[d];
    if (box_extent_[d] <= 0) return 0;
    count *= box_extent_[d];
  }
  return count;
}

int BoxingGeometry::Nearest(int source) const {
  int best = source;
  Distance nearest = topology_.Between(from_.placement.ranks()[source], own_rank_);
  for (int offset : replica_offsets_) {
    const Distance distance = topology_.Between(from_.placement.ranks()[source + offset], own_rank_);
    if (distance < nearest) best = source + offset, nearest = distance;
  }
  return best;
}

}  // namespace oneflow
