// What the actions of a schedule cost: measured, or in units.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Of one chunk and one micro-batch. B takes what I and W take.
struct ChunkCosts {
  double forward = 1;  // seconds
  double input_gradient = 1;
  double weight_gradient = 1;
  // Memory that F keeps until B or W has ended: bytes, or any unit that is the same for all chunks.
  int64_t activations = 1;

  double Seconds(ActionKind kind) const {
    const double seconds[] = {forward, input_gradient, weight_gradient, input_gradient + weight_gradient};
    return seconds[static_cast<int>(kind)];
  }
};

struct ScheduleCosts {
  std::vector<ChunkCosts> chunks;
  // Entry c: seconds that a value takes from chunk c to chunk c + 1, or its gradient back, if they lie on different
  // ranks. Both ranks stay free meanwhile. Empty: none.
  std::vector<double> transfers;
  // A pair that runs together takes this part of the sum of both times.
  double together = 1;

  double TransferAfter(int chunk) const { return transfers.empty() ? 0 : transfers[chunk]; }
};

// The same for all chunks, without transfers.
ScheduleCosts EqualCosts(int num_chunks, const ChunkCosts& chunk);

// InvalidArgument unless there is a cost for each of `num_chunks` chunks and all are finite and not negative.
absl::Status CheckCosts(const ScheduleCosts& costs, int num_chunks);

}  // namespace oneflow
