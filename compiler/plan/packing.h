// Offsets for pieces of memory that are used at known times: those that are used together must not overlap.
#pragma once

#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "compiler/plan/lifetimes.h"

namespace oneflow {

// A piece of memory on all ranks of some classes, at the same offset on each.
struct Claim {
  int64_t num_bytes = 0;
  absl::InlinedVector<Ticks, 2> when;  // by class, ascending
  // Of the workspace of an act: of which actor, and in use from which instruction to which. These acts are executed one
  // at a time, so that workspaces of different actors never meet, whatever their ticks. -1: no such workspace.
  int actor = -1;
  int first = 0;
  int last = 0;
};

// Whether both may be in use at once on some rank.
bool Meet(const Claim& a, const Claim& b);

struct Packing {
  // When most is in use.
  struct Fullest {
    int tick = 0;
    int actor = -1;       // whose act the clock does not place, but fills it; -1: none
    int instruction = 0;  // of that act
  };

  std::vector<int64_t> offsets;    // by claim
  std::vector<int64_t> num_bytes;  // by class: the end of its last claim
  // By class: the most that is in use at one tick, which no packing can go below, and when that is. An act that the
  // clock does not place may happen in each of its gaps.
  std::vector<int64_t> bound;
  std::vector<Fullest> fullest;
};

// Each claim at the lowest aligned offset where nothing lies that it meets: the largest first, or those that are large
// for long. While that leaves a gap above the bound, what came to lie on top is placed first and all is done again, a
// few times; the best counts. Where so many claims meet that this would take seconds, memory is taken and given back as
// time goes on instead, n log n and not as close. REQUIRES: the sum of all sizes is below 2^62.
Packing Pack(absl::Span<const Claim> claims, const std::vector<Clock>& clocks);

}  // namespace oneflow
