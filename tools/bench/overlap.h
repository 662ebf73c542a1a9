// How much of the time that gradients travel is hidden behind computing: a data-parallel GPT on two processes, with an
// emulated link of 1 ms per MB, and without it in the same round.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "tools/bench/measurement.h"

namespace oneflow {

struct OverlapRound {
  Round without, with;  // the link

  // Of a rank and step: time on the link; of that, how much longer what computes sleeps than without it.
  double link_seconds() const;
  double exposed_seconds() const;
  double hidden() const { return 1 - exposed_seconds() / link_seconds(); }
};

// `sets` are assignments to fields of its config. Errors of MakeJob and RunJob.
absl::StatusOr<OverlapRound> MeasureOverlap(const std::vector<std::string>& sets, int warmup, int steps,
                                            const OpRegistry& ops, const std::atomic<bool>& stop);

// For people, from at least one round.
std::string OverlapTable(const std::vector<OverlapRound>& rounds);

}  // namespace oneflow
