// How the elements of a value lie in memory: a property of the value, beside its type. Counts of bytes and elements do
// not depend on it. Models, boxings and files never see it. The compiler decides it, for values that are only touched
// by ops with the trait `blocks` (op.h). Plain C++ without Abseil, so that CUDA sources may include it.
//
//   kRowMajor        [n,c,h,w] lies as it is written
//   kChannelBlocks   [n,c,h,w] lies as [n,c/16,h,w,16], each shard by itself. Sixteen channels of a pixel lie side by
//                    side: a cache line of floats, as convolutions on CPUs read them
#pragma once

#include <cstdint>

namespace oneflow {

// The numeric values are written to plans; never renumber.
enum class MemoryLayout : uint8_t {
  kRowMajor = 0,
  kChannelBlocks = 1,
};
inline constexpr int kNumMemoryLayouts = 2;

inline constexpr int64_t kBlockChannels = 16;

// Behind a type, in texts: "" or " blocks".
constexpr const char* Suffix(MemoryLayout layout) { return layout == MemoryLayout::kChannelBlocks ? " blocks" : ""; }

// Whether a tensor, or a shard, of these sizes can lie in blocks.
template <typename Dims>
constexpr bool FitsBlocks(const Dims& dims, int rank) {
  return rank == 4 && dims[1] % kBlockChannels == 0;
}

}  // namespace oneflow
