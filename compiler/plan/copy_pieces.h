// A boxing step for one destination, as copies between dense local shards: offsets and strides in elements.
//
// Equal boxes of several sources are summed (or maximised): the first to cover an element overwrites it, later ones
// combine, so nothing need be cleared first. Boxes that are not equal are disjoint.
#pragma once

#include <vector>

#include "sbp/boxing_reads.h"

namespace oneflow {

struct CopyPiece {
  int source = 0;  // index into from.placement.ranks()
  std::vector<int64_t> extent;
  int64_t source_offset = 0;
  std::vector<int64_t> source_stride;
  int64_t target_offset = 0;
  std::vector<int64_t> target_stride;
  bool accumulate = false;
};

struct CopyProgram {
  std::vector<CopyPiece> pieces;
  bool zero_fill = false;  // the pieces leave a part of the destination's shard uncovered
};

// The copy of one box, which lies in both shards.
CopyPiece PieceOf(const Region& box, int source, const Region& source_shard, const Region& target_shard);

// The copies of destination `index` of to.placement.
CopyProgram CopiesFor(BoxingReads& reads, int index);

}  // namespace oneflow
