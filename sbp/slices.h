// Which part of a logical tensor each rank of a placement holds: the algebra under shards, kernels' offsets and boxing.
//
// Splits are balanced and may be uneven: of n elements over p parts the first n mod p parts get one more. On several
// axes they nest: axis 0 cuts the logical tensor, axis 1 the result, and so on.
//
//   6 elements, (S(0),S(0)) on [2,2]:  {0,1} {2} {3,4} {5}        S(0) on [4]:  {0,1} {2,3} {4} {5}
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"

namespace oneflow {

// A box in the logical tensor's coordinates. Empty if any extent is 0.
struct Region {
  std::vector<int64_t> start;
  std::vector<int64_t> extent;

  int64_t count() const;
  bool operator==(const Region& o) const { return start == o.start && extent == o.extent; }
};

// The whole of `shape`.
Region WholeRegion(const Shape& shape);
// The common part of two boxes of equal rank; extents are 0 where they do not meet.
Region Intersect(const Region& a, const Region& b);

// Part `index` of `parts` of the interval [0, n): {start, extent}.
std::pair<int64_t, int64_t> BalancedPart(int64_t n, int parts, int index);

// What rank index `index` of the placement holds of a tensor of that shape. B and P axes do not cut.
// REQUIRES: sbp has one entry per axis, every split dimension is < shape.rank().
Region ShardRegion(const Shape& shape, const DistType& dist, int index);
Shape ShardShape(const Shape& shape, const DistType& dist, int index);
// The shard of the rank that holds most, which is the first.
TensorType LargestShard(const TensorType& type, const DistType& dist);
int64_t ShardBytes(const TensorType& type, const DistType& dist);
// ShardRegion without allocating: writes shape.rank() numbers to each of `start` and `extent`.
void ShardRegion(const Shape& shape, const DistType& dist, int index, int64_t* start, int64_t* extent);

// Whether every rank's shard can lie in blocks of channels (oneflow_core/memory_layout.h). REQUIRES: as ShardRegion.
bool ShardsFitBlocks(const TensorType& type, const DistType& dist);

// Indices of the ranks that are first or last along every axis. Their shards have all shapes that occur, for every
// type: a balanced split gives parts of at most two sizes, and so does a split of its parts.
std::vector<int> CornersOf(const Placement& placement);

// InvalidArgument if `dist` cannot describe a tensor of that shape: wrong number of axes, a split dimension that does
// not exist.
absl::Status CheckDistType(const Shape& shape, const DistType& dist);

}  // namespace oneflow
