// How the elements of a value lie in memory: a property of the value, beside its type. Nothing that counts bytes or
// elements depends on it, and no model, boxing or file sees it: the compiler alone decides it, for values that only ops
// which know it touch (the trait `blocks` of op.h). Plain C++ without Abseil, so that CUDA sources may include it.
//
//   kRowMajor        [n,c,h,w] lies as it is written
//   kChannelBlocks   [n,c,h,w] lies as [n,c/16,h,w,16], each shard by itself: sixteen channels of a pixel, which are a
//                    cache line of floats, lie side by side, as convolutions on CPUs read them
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
