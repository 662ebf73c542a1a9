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
  // What F keeps until B or W has ended: bytes, or any unit that is the same for all chunks.
  int64_t activations = 1;

  double Seconds(ActionKind kind) const {
    const double seconds[] = {forward, input_gradient, weight_gradient, input_gradient + weight_gradient};
    return seconds[static_cast<int>(kind)];
  }
};

struct ScheduleCosts {
  std::vector<ChunkCosts> chunks;
  // By c: seconds that a value takes from chunk c to chunk c + 1 and its gradient back, if they lie on different ranks.
  // Neither rank is kept busy by it. Empty: none.
  std::vector<double> transfers;
  // A pair that runs together takes this part of what both would take one after the other.
  double together = 1;

  double TransferAfter(int chunk) const { return transfers.empty() ? 0 : transfers[chunk]; }
};

// The same for all chunks, without transfers.
ScheduleCosts EqualCosts(int num_chunks, const ChunkCosts& chunk);

// InvalidArgument unless there is a cost for each of `num_chunks` chunks and none is negative or no number.
absl::Status CheckCosts(const ScheduleCosts& costs, int num_chunks);

}  // namespace oneflow
