// The boxes that every destination rank of one boxing step reads, by slice intersection. Steps and their prices are
// both computed from them; the step itself is not built.
//
// Every axis of the source placement has one of three roles for a destination:
//
//   all       all coordinates are read: slices are joined, addends combined
//   own       only the destination's own coordinate on the matching axis is read: P->P, S->P, B->B
//   replica   the nearest copy is read: B without a matching axis, or B on an axis along which a rank has two
//             coordinates
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"
#include "sbp/slices.h"
#include "sbp/topology.h"

namespace oneflow {

// How the axes of two distributed types relate. REQUIRES: both fit the tensor.
struct AxisRoles {
  static constexpr int kNone = -1;

  std::vector<int> match_of_from;  // per axis of `from`: the axis of `to` of the same name and size, or kNone
  std::vector<int> match_of_to;
  std::vector<bool> reduced;  // per axis of `from`: P whose addends are combined (axes of one rank never count)
  std::vector<bool> copied;   // per axis of `to`: holds copies that `from` did not have along the matching axis
  int num_addends = 1;        // product of the sizes of the reduced axes
  int num_copies = 1;         // product of the sizes of the copied axes
};
AxisRoles RolesOf(const DistType& from, const DistType& to);

// Whether every rank of both placements has one coordinate along axis `a` of `from` and `b` of `to`.
bool AgreeAlong(const Placement& from, int a, const Placement& to, int b);

// The role of each axis of `from`, and the axes of `to` along which some destinations read nothing.
struct ReadRoles {
  enum class Role : uint8_t { kAll, kOwn, kReplica };
  std::vector<Role> of_from;
  std::vector<int> own;          // per axis of `from`: for kOwn, the matching axis of `to`
  std::vector<bool> zero_of_to;  // axes of `to` along which only coordinate 0 reads
};
ReadRoles ReadRolesOf(const DistType& from, const DistType& to);

class BoxingGeometry {
 public:
  // Borrows all arguments. REQUIRES: both types fit `shape`, and the topology knows all their ranks.
  BoxingGeometry(const Shape& shape, const DistType& from, const DistType& to, const Topology& topology);

  // Calls visit(source, start, extent, count) for every non-empty box that destination `index` reads from `source`
  // (both are indices of their placements). Overlapping boxes are combined in this order. The arrays are valid during
  // the call.
  template <typename Visit>
  void ForEachBox(int index, Visit&& visit) {
    int base = 0;
    if (!StartDestination(index, base)) return;
    for (int offset : all_offsets_) {
      const int64_t count = IntersectWith(base + offset);
      if (count > 0) visit(Nearest(base + offset), box_start_.data(), box_extent_.data(), count);
    }
  }

  // The same for one source: calls visit(start, extent) if `index` reads anything of it.
  template <typename Visit>
  void VisitBox(int index, int source, Visit&& visit) {
    int base = 0;
    if (!StartDestination(index, base) || !IsRead(source, base)) return;
    if (IntersectWith(source) > 0) visit(box_start_.data(), box_extent_.data());
  }
  // Whether a destination reads anything, if the tensor is large enough.
  bool Reads(int index) const;

 private:
  // Whether a destination whose own coordinates fix `base` reads `source`, whatever the regions.
  bool IsRead(int source, int base) const;
  // Computes the destination's region and the source index that its own coordinates fix; false if it reads nothing.
  bool StartDestination(int index, int& base);
  // The box that source and destination share, and its number of elements.
  int64_t IntersectWith(int source);
  // Of a destination.
  int CoordinateOf(int index, int axis) const;
  // The closest of the replicas of `source`, of which it is the first.
  int Nearest(int source) const;

  const Shape& shape_;
  const DistType& from_;
  const DistType& to_;
  const Topology& topology_;
  int own_rank_ = 0;
  // An axis of `from`: its stride in the list of sources, and the axis of `to` whose coordinate selects the source.
  struct ReadAxis {
    int size = 1;
    int stride = 1;
    int of_to = -1;
  };
  std::vector<ReadAxis> own_axes_, replica_axes_;
  std::vector<int> zero_axes_;       // axes of `to` along which only coordinate 0 reads
  std::vector<int> all_offsets_{0};  // of source indices, over the axes of role `all`, row-major
  std::vector<int> replica_offsets_{0};
  // Regions of all sources, and of the current destination and box: shape.rank() numbers each.
  std::vector<int64_t> source_start_, source_extent_;
  std::vector<int64_t> start_, extent_, box_start_, box_extent_;
};

}  // namespace oneflow
