// Offsets for buffers with known times of use: buffers in use at the same time must not overlap.
#pragma once

#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "compiler/plan/lifetimes.h"
#include "compiler/plan/variables.h"

namespace oneflow {

// A buffer on all ranks of some classes, at the same offset on each.
struct Claim {
  int64_t num_bytes = 0;
  absl::InlinedVector<Ticks, 2> when;  // by class, ascending
  // For a buffer in the workspace of an act: the actor, and the instructions from first to last use. Acts that share a
  // workspace are executed one at a time, so workspaces of different actors never meet, whatever their ticks. -1: no
  // workspace.
  int actor = -1;
  int first = 0;
  int last = 0;
  Zone zone = kPrivateZone;

  // With what keeps it apart from others.
  int64_t room() const { return RoomIn(zone, num_bytes); }
};

// Whether both may be in use at once on some rank.
bool Meet(const Claim& a, const Claim& b);

// By class: the most bytes in use at one tick. Claims and ticks, n log n.
std::vector<int64_t> MostInUse(absl::Span<const Claim> claims, const std::vector<Clock>& clocks);

struct Packing {
  // The time of the greatest use.
  struct Fullest {
    int tick = 0;
    int actor = -1;       // the actor whose act is not placed by the clock, but fills it; -1: none
    int instruction = 0;  // of that act
  };

  std::vector<int64_t> offsets;    // by claim
  std::vector<int64_t> num_bytes;  // by class: the end of its last claim
  // By class: the most bytes in use at one tick, below which no packing can go, and when that is. An act that the clock
  // does not place may happen in each of its gaps.
  std::vector<int64_t> bound;
  std::vector<Fullest> fullest;
};

// Each claim lies at the lowest aligned offset that is free during its use: the largest first, or those that are large
// for long. While that leaves a gap above the bound, the claim on top is placed first and all is repeated, a few times;
// the best result counts. Where so many claims meet that this would take seconds, memory is instead allocated and freed
// as time goes on, n log n and less close; where that leaves a large gap, also once by size. REQUIRES: the sum of all
// sizes is below 2^62.
Packing Pack(absl::Span<const Claim> claims, const std::vector<Clock>& clocks);

}  // namespace oneflow
