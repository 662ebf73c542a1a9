// Cutting a sequence of work into pipeline stages.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace oneflow {

// Divides items 0 .. n-1 into contiguous runs (which may be empty), one for each of `shares`, and returns the stage of
// each item.
//
//   cost   3 1 1 3        shares 1, 1, slack 0.1:    0 0 | 1 1
//   cut   0 9 2 9 0       cut[i]: bytes that cross a boundary just before item i; n + 1 entries, the ends are free
//
// The share of a stage is its part of the work, or its speed: its cost is divided by it. The slowest stage decides the
// speed of a pipeline, so its cost is minimised. Among partitions within `slack` (0.1: a tenth) of that minimum, the
// fewest bytes over the cuts win, then the best balance, then the partition whose last stages begin first. Exact and
// deterministic. O(stages * n). REQUIRES: there are shares, all positive; cut.size() == cost.size() + 1, costs are not
// negative.
std::vector<int> PartitionIntoStages(const std::vector<double>& cost, const std::vector<int64_t>& cut,
                                     absl::Span<const double> shares, double slack);
// Into this many stages of equal shares.
std::vector<int> PartitionIntoStages(const std::vector<double>& cost, const std::vector<int64_t>& cut, int stages,
                                     double slack);

}  // namespace oneflow
