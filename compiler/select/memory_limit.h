// Choosing under a limit on the memory of variables: a price on bytes, raised until what is chosen fits.
//
//   least of   seconds + price * bytes of variables          (the Lagrangian of: least seconds, bytes <= limit)
//
// For every price the search solves the same problem with other seconds; a higher price never chooses more bytes (where the
// search is exact). The least price that fits is found by bisection. What it chooses is the fastest among all that need as
// few bytes; between two neighbouring prices there may be a better use of the limit, which this does not find.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/select/search.h"
#include "oneflow_core/status.h"

namespace oneflow {

// What options of nodes hold in memory.
struct MemoryDemand {
  std::vector<std::vector<int64_t>> bytes;  // by node and option, on every one of the node's ranks; empty: none
  std::vector<std::vector<int>> ranks;      // by node
};

// The bytes on the rank that holds most.
int64_t LargestDemand(const MemoryDemand& demand, const std::vector<int>& choice);

// Search(), such that no rank holds more than `limit` bytes. The seconds of the result do not contain the price of bytes;
// it is `exact` only if the limit did not matter. ResourceExhausted, naming both numbers, if nothing that was found fits.
absl::StatusOr<SearchResult> SearchWithin(const SearchProblem& problem, const MemoryDemand& demand, int64_t limit,
                                          const SearchLimits& limits = {});

}  // namespace oneflow
