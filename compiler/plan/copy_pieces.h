// A boxing step for one destination, as copies between dense local shards: offsets and strides in elements.
//
// Where boxes of several sources overlap they are summed (or maximised): the first to cover an element overwrites what
// was there, later ones combine, so that nothing need be cleared first. A box that is partly covered already is cut
// along that border.
#pragma once

#include <vector>

#include "sbp/boxing.h"

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

// What destination `index` of to.placement does. REQUIRES: the step came from OneBoxingStep for a tensor of this shape.
CopyProgram CopiesFor(const Shape& shape, const BoxingStep& step, int index);

}  // namespace oneflow
