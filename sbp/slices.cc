#include "sbp/slices.h"

#include <algorithm>

namespace oneflow {

int64_t Region::count() const {
  int64_t n = 1;
  for (int64_t e : extent) n *= e;
  return n;
}

Region WholeRegion(const Shape& shape) { return {std::vector<int64_t>(shape.rank(), 0), shape.dims()}; }

Region Intersect(const Region& a, const Region& b) {
  Region result{a.start, a.extent};
  for (size_t d = 0; d < a.start.size(); ++d) {
    const int64_t end = std::min(a.start[d] + a.extent[d], b.start[d] + b.extent[d]);
    result.start[d] = std::max(a.start[d], b.start[d]);
    result.extent[d] = std::max<int64_t>(0, end - result.start[d]);
  }
  return result;
}

std::pair<int64_t, int64_t> BalancedPart(int64_t n, int parts, int index) {
  const int64_t base = n / parts;
  const int64_t longer = n % parts;  // the first `longer` parts have one more
  return {index * base + std::min<int64_t>(index, longer), base + (index < longer ? 1 : 0)};
}

void ShardRegion(const Shape& shape, const DistType& dist, int index, int64_t* start, int64_t* extent) {
  for (int d = 0; d < shape.rank(); ++d) {
    start[d] = 0;
    extent[d] = shape[d];
  }
  int stride = dist.placement.size();
  for (int a = 0; a < dist.placement.num_axes(); ++a) {
    const int size = dist.placement.axes()[a].size;
    stride /= size;
    if (!dist.sbp[a].is_split()) continue;
    const int d = dist.sbp[a].dim();
    const auto [part_start, part_extent] = BalancedPart(extent[d], size, index / stride % size);
    start[d] += part_start;
    extent[d] = part_extent;
  }
}

Region ShardRegion(const Shape& shape, const DistType& dist, int index) {
  Region region{std::vector<int64_t>(shape.rank()), std::vector<int64_t>(shape.rank())};
  ShardRegion(shape, dist, index, region.start.data(), region.extent.data());
  return region;
}

Shape ShardShape(const Shape& shape, const DistType& dist, int index) {
  return Shape(ShardRegion(shape, dist, index).extent);
}

bool ShardsFitBlocks(const TensorType& type, const DistType& dist) {
  if (type.is_ragged()) return false;
  const std::vector<int> corners = CornersOf(dist.placement);
  return std::all_of(corners.begin(), corners.end(),
                     [&](int index) { return FitsBlocks(ShardShape(type.shape, dist, index), type.shape.rank()); });
}

std::vector<int> CornersOf(const Placement& placement) {
  std::vector<int> corners = {0};
  for (const Axis& axis : placement.axes()) {
    std::vector<int> next;
    for (const int corner : corners) {
      next.push_back(corner * axis.size);
      if (axis.size > 1) next.push_back(corner * axis.size + axis.size - 1);
    }
    corners = std::move(next);
  }
  return corners;
}

absl::Status CheckDistType(const Shape& shape, const DistType& dist) {
  if (static_cast<int>(dist.sbp.size()) != dist.placement.num_axes()) {
    return absl::InvalidArgumentError(absl::StrCat("SBP ", ToString(dist.sbp), " has ", dist.sbp.size(),
                                                   " entries, but placement ", dist.placement.ToString(), " has ",
                                                   dist.placement.num_axes(), " axes"));
  }
  for (const Sbp& sbp : dist.sbp) {
    if (sbp.is_split() && (sbp.dim() < 0 || sbp.dim() >= shape.rank())) {
      return absl::InvalidArgumentError(absl::StrCat("SBP ", ToString(dist.sbp), " splits dimension ", sbp.dim(),
                                                     ", but the tensor is ", shape.ToString()));
    }
  }
  return absl::OkStatus();
}

TensorType LargestShard(const TensorType& type, const DistType& dist) {
  return {type.dtype, ShardShape(type.shape, dist, /*index=*/0)};
}

int64_t ShardBytes(const TensorType& type, const DistType& dist) { return LargestShard(type, dist).num_bytes(); }

}  // namespace oneflow
