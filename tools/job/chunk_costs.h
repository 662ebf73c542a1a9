// What the chunks of a pipeline cost, as a run of them was traced: for schedules that go by costs
// (compiler/schedule/greedy.h).
#pragma once

#include "actor/trace/trace.h"
#include "compiler/schedule/costs.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct ChunkTimes {
  // Of an act the median, of the ranks of a chunk the slowest. What F keeps is in bytes: what registers hold of a
  // micro-batch from when forward has made or read it until backward has.
  ScheduleCosts costs;
  // Whether the gradients of inputs and of weights were acts of their own; if not, I has the time of both.
  bool splits_backward = false;
};

// InvalidArgument if no plan of the trace has this number of chunks whose forward and backward are acts of their own,
// or if acts are launches. REQUIRES: the trace was checked.
absl::StatusOr<ChunkTimes> TracedChunks(const Trace& trace, int num_chunks);

}  // namespace oneflow
