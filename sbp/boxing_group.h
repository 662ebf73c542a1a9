// The part of a boxing that concerns one rank.
//
// Ranks with different coordinates on an axis exchange nothing if both placements have the axis and nothing changes
// along it. So a rank takes part in a smaller boxing: among the ranks with its coordinates on these axes, of their part
// of the tensor:
//
//   f32[4096,1024] [dp=32,tp=8](S(0),P) -> (S(0),S(1))        for each of 32:   f32[128,1024] [tp=8](P) -> (S(1))
//
// One rank's part needs a group of 8 ranks instead of 256. Groups of equal shape do the same.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"

namespace oneflow {

struct BoxingGroup {
  Shape shape;    // of the part of the tensor
  DistType from;  // on the ranks of the group
  DistType to;
};

// The groups of a boxing. What all of them have in common looks at every rank, and is found once.
class BoxingGroups {
 public:
  // Borrows all. REQUIRES: both types fit `shape`.
  BoxingGroups(const Shape& shape, const DistType& from, const DistType& to);

  // The group of `rank`; the whole boxing if a rank has different coordinates in the two placements along an axis
  // without a change. REQUIRES: `rank` is in one of the placements.
  BoxingGroup Of(int rank) const;

 private:
  const Shape& shape_;
  const DistType &from_, &to_;
  const std::vector<std::pair<int, int>> kept_;  // axes of both along which nothing changes
};

// The same of one rank alone.
BoxingGroup GroupOf(const Shape& shape, const DistType& from, const DistType& to, int rank);

// One group of each shape. Uneven splits give groups of different shapes.
std::vector<BoxingGroup> DifferentGroups(const Shape& shape, const DistType& from, const DistType& to);

// Whether every rank reads only its own memory, for tensors of any size: the placement is the same, and each axis keeps
// its SBP or turns copies into slices or addends.
bool IsLocal(const DistType& from, const DistType& to);

// A rule for the sources of every rank: itself and all ranks that differ from it along `axes` only.
struct BoxingReach {
  uint32_t axes = 0;  // bit a: along axis a of the placement
  bool some = false;  // some of these ranks only, and not itself
  bool one = false;   // one other rank each, and none has nothing (TurnOf)
};

// Nothing if no such rule is known: placements of other axes or ranks, shards that may be empty, dimensions split by
// several axes, values that become P. Where ranks have one another's places, and nothing else changes: some ranks.
std::optional<BoxingReach> ReachOf(const Shape& shape, const DistType& from, const DistType& to);

// Where ranks have one another's places: pairs of a rank and the one that it reads, ascending.
std::vector<std::pair<int, int>> TurnOf(const Placement& from, const Placement& to);

}  // namespace oneflow
