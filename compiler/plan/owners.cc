#include "compiler/plan/owners.h"

#include <algorithm>

#include "sbp/slices.h"

namespace oneflow {

namespace {

// Whether the ranks along an axis hold the same.
bool AreCopies(const Sbp& sbp) { return !sbp.is_split() && !sbp.is_mean(); }

}  // namespace

int NumCopies(const DistType& dist) {
  int copies = 1;
  for (int axis = 0; axis < dist.placement.num_axes(); ++axis) {
    if (AreCopies(dist.sbp[axis])) copies *= dist.placement.axes()[axis].size;
  }
  return copies;
}

int CopyAt(const DistType& dist, int index) {
  const std::vector<int> coordinates = dist.placement.Coordinates(index);
  int copy = 0;
  for (int axis = 0; axis < dist.placement.num_axes(); ++axis) {
    if (AreCopies(dist.sbp[axis])) copy = copy * dist.placement.axes()[axis].size + coordinates[axis];
  }
  return copy;
}

OwnPart OwnPartAt(const DistType& dist, int index) {
  const std::vector<int> coordinates = dist.placement.Coordinates(index);
  OwnPart part;
  for (int axis = 0; axis < dist.placement.num_axes(); ++axis) {
    if (!dist.sbp[axis].is_mean()) continue;
    const int size = dist.placement.axes()[axis].size;
    part.count = std::max(part.count, 1) * size;
    part.index = part.index * size + coordinates[axis];
  }
  return part;
}

int Owners::Next(const TensorType& type, const DistType& dist) {
  const int copies = NumCopies(dist);
  Load& load = loads_[{dist.placement.ranks()[0], copies}];
  if (load.bytes.empty()) {
    load.placement = dist.placement;
    load.bytes.resize(copies);
  }
  const auto least = std::min_element(load.bytes.begin(), load.bytes.end());
  *least += ShardShape(type.shape, dist, 0).count() * static_cast<int64_t>(SizeOf(type.dtype));
  return static_cast<int>(least - load.bytes.begin());
}

int64_t Owners::Load::Most() const { return *std::max_element(bytes.begin(), bytes.end()); }

}  // namespace oneflow
