// The part of a boxing that concerns one rank.
//
// Along an axis that both placements have and on which nothing changes, ranks of different coordinates have nothing to
// exchange. What a rank does is therefore a boxing among those that share its coordinates there, of the part of the
// tensor that these hold:
//
//   f32[4096,1024] [dp=32,tp=8](S(0),P) -> (S(0),S(1))        for each of 32:   f32[128,1024] [tp=8](P) -> (S(1))
//
// So whoever needs one rank's part looks at a group of 8 and not at 256 ranks, and what one group of a size does, all
// do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"

namespace oneflow {

struct BoxingGroup {
  Shape shape;    // of the part of the tensor
  DistType from;  // on the ranks of the group
  DistType to;
};

// The group of `rank`. The whole boxing if a rank has different coordinates in the two placements along an axis on
// which nothing changes. REQUIRES: both types fit `shape`, and `rank` is in one of the placements.
BoxingGroup GroupOf(const Shape& shape, const DistType& from, const DistType& to, int rank);

// Of the groups of a boxing one of each shape: where splits are uneven, not all have parts of the same size.
std::vector<BoxingGroup> DifferentGroups(const Shape& shape, const DistType& from, const DistType& to);

// Whether every rank reads its own memory only. True only for what needs no look at sizes: the same placement, and
// along each axis no change or copies that become slices or addends.
bool IsLocal(const DistType& from, const DistType& to);

// Whom every rank reads, where a rule says it: itself, and all ranks that differ from it along `axes` alone, and nobody
// else.
struct BoxingReach {
  uint32_t axes = 0;  // bit a: along axis a of the placement
};

// Nothing where no such rule is known to hold: different placements, shards that may be empty, dimensions that several
// axes cut, values that become P.
std::optional<BoxingReach> ReachOf(const Shape& shape, const DistType& from, const DistType& to);

}  // namespace oneflow
