// The order in which the nodes of a chain run, so that the values between them live briefly.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace oneflow {

// A node of a chain. Buffers are memory that only nodes of the chain touch.
struct OrderedNode {
  std::vector<int> after;  // nodes that have to run before it
  std::vector<int> makes;  // buffers
  std::vector<int> reads;
};

// The most bytes in use at once if the nodes run in `order`. A buffer is in use from the node that makes it to its last
// reader.
int64_t BytesAtPeak(absl::Span<const OrderedNode> nodes, absl::Span<const int64_t> buffer_bytes,
                    absl::Span<const int> order);

// An order that keeps `after` and needs no more memory than the given one, 0, 1, 2, …. A node that frees at least as
// much as it takes runs as soon as it can; otherwise the given order continues. So an update runs right behind the
// gradient that it consumes, not behind all others. There is no search; the least peak is NP-hard to find. n log n.
// REQUIRES: the given order keeps `after`.
std::vector<int> OrderToLiveBriefly(absl::Span<const OrderedNode> nodes, absl::Span<const int64_t> buffer_bytes);

}  // namespace oneflow
