// Choosing under limits on memory: a price on bytes, raised until the choice fits.
//
//   least of   seconds + price * bytes that are held          (the Lagrangian of: least seconds, bytes <= limit)
//
// Boxings of weights are not avoided here as they are without a limit: to gather a weight may be what makes room. Each
// costs a multiple of its time instead.
//
// For every price the search solves the same problem with other seconds; a higher price never chooses more bytes (where
// the search is exact). Bisection finds the least price that fits. Its choice is the fastest among all with as few
// bytes. Between two neighbouring prices there may be a better use of the limit, which this does not find.
//
// The price of a value that several readers hold, once per type, is divided among them: exact if they want the same
// type. Whether a choice fits is counted, not priced.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/select/search.h"
#include "oneflow_core/status.h"

namespace oneflow {

enum class MemoryKind : uint8_t { kVariable, kSum, kActivation, kCopy };
const char* Name(MemoryKind kind);  // "variables", "sums", "activations", "copies"

// The memory of ranks, by choice.
struct MemoryDemand {
  // A value that a node makes, for as long as the step lasts.
  struct Made {
    int node = 0;
    MemoryKind kind = MemoryKind::kVariable;
    std::vector<int64_t> bytes;  // by option
  };
  // A value in each type that one of these readers wants, on the reader's ranks.
  struct Read {
    int value = 0;
    MemoryKind kind = MemoryKind::kActivation;
    std::vector<std::pair<int, int>> readers;  // node, input
    bool only_boxed = false;                   // the type in which it is made is counted elsewhere
  };
  std::vector<Made> made;
  std::vector<Read> read;
  std::function<int64_t(int value, int dist)> size;  // bytes on each rank that has it
  std::vector<int> place;                            // by node
  std::vector<std::vector<int>> ranks;               // by place
};

// Bytes by kind.
struct DemandByKind {
  std::array<int64_t, 4> bytes = {};
  int64_t total() const { return bytes[0] + bytes[1] + bytes[2] + bytes[3]; }
  std::string ToString() const;  // "variables 640, activations 2048"
};

// On the rank that holds most.
DemandByKind LargestUse(const SearchProblem& problem, const MemoryDemand& demand, const std::vector<int>& choice);

struct MemoryLimit {
  MemoryDemand demand;
  int64_t bytes = 0;
};

// Search(), such that no rank holds more than any of the limits. The cost of the result does not contain the price of
// bytes; it is `exact` only if the limits did not matter. ResourceExhausted, naming both numbers and the largest
// holders, if no choice that was found fits.
absl::StatusOr<SearchResult> SearchWithin(const SearchProblem& problem, const std::vector<MemoryLimit>& limits,
                                          const SearchLimits& search = {});

}  // namespace oneflow
