// Boxes of logical tensors: the part of a shard, and the contiguous parts of a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace oneflow {

// Elements [start, start + extent) in each dimension. Dense and row-major wherever it lies in memory.
struct Box {
  std::vector<int64_t> start, extent;

  int rank() const { return static_cast<int>(start.size()); }
  int64_t count() const;
  // "[0:64,128:256]"; "[]" of a scalar.
  std::string ToString() const;
  bool operator==(const Box& other) const { return start == other.start && extent == other.extent; }
};

// The box in the fields `start` and `extent` of a message.
template <typename Message>
Box BoxOf(const Message& message) {
  return {{message.start().begin(), message.start().end()}, {message.extent().begin(), message.extent().end()}};
}

// All of a tensor with these sizes.
Box WholeBox(std::vector<int64_t> dims);

// Calls fn(place in a, place in b, length) for every run of elements that both boxes have and that is contiguous in
// both; in elements, by ascending places. REQUIRES: the same rank.
void ForEachCommonRun(const Box& a, const Box& b, absl::FunctionRef<void(int64_t, int64_t, int64_t)> fn);

// Whether the non-empty `boxes` cover `whole` exactly once. Says no to tilings that no straight cut divides; those of
// shards, nested splits, always have one. Takes n log n for each cut that follows another.
bool Tile(const Box& whole, std::vector<Box> boxes);

}  // namespace oneflow
