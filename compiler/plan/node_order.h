// In which order the nodes of a chain run, so that what they leave for one another lives briefly.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace oneflow {

// A node of a chain. Buffers are what only nodes of the chain touch.
struct OrderedNode {
  std::vector<int> after;  // nodes that have to run before it
  std::vector<int> makes;  // buffers
  std::vector<int> reads;
};

// The most bytes in use at once if the nodes run in `order`: a buffer from the node that makes it to the last that
// reads it.
int64_t BytesAtPeak(absl::Span<const OrderedNode> nodes, absl::Span<const int64_t> buffer_bytes,
                    absl::Span<const int> order);

// An order that keeps `after`, and needs no more than the given one, 0, 1, 2, …: whatever frees at least as much as it
// takes runs as soon as it can, and else the given order goes on. So an update runs right behind the gradient that it
// consumes, and not behind all others. Nothing is searched for; the least peak is NP-hard to find. n log n. REQUIRES:
// the given order keeps `after`.
std::vector<int> OrderToLiveBriefly(absl::Span<const OrderedNode> nodes, absl::Span<const int64_t> buffer_bytes);

}  // namespace oneflow
