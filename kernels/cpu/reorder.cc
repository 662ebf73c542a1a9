// Between row-major and blocks of channels a block of a sample is a matrix that is transposed, in square tiles of
// vectors:
//
//   [16 channels, pixels]  <->  [pixels, 16 channels]
//
// Bits are moved as they are: those of 16-bit elements in the lower halves of lanes.
#include "kernels/cpu/reorder.h"

#include <cstring>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

OF_INLINE F32s LoadBits(const uint32_t* p) { return Load(reinterpret_cast<const float*>(p)); }
OF_INLINE F32s LoadBits(const uint16_t* p) {
  return (F32s) __builtin_convertvector(*reinterpret_cast<const U16sUnaligned*>(p), U32s);
}
OF_INLINE void StoreBits(uint32_t* p, F32s bits) { Store(reinterpret_cast<float*>(p), bits); }
OF_INLINE void StoreBits(uint16_t* p, F32s bits) {
  *reinterpret_cast<U16sUnaligned*>(p) = __builtin_convertvector((U32s)bits, U16s);
}

// to[column][row] = from[row][column] for a tile of kLanes x kLanes.
template <typename Bits>
OF_INLINE void TransposeTile(const Bits* from, int64_t from_stride, Bits* to, int64_t to_stride) {
  F32s tile[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) tile[i] = LoadBits(from + i * from_stride);
  Transpose(tile);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) StoreBits(to + i * to_stride, tile[i]);
}

// One block of a sample, in either direction.
template <bool kIntoBlock, typename Bits>
void MoveBlock(const Bits* from, int64_t pixels, Bits* to) {
  const auto in_planes = [=](int64_t channel, int64_t pixel) { return channel * pixels + pixel; };
  const auto in_block = [](int64_t channel, int64_t pixel) { return pixel * kBlockChannels + channel; };
  int64_t pixel = 0;
  for (; pixel + kLanes <= pixels; pixel += kLanes) {
    for (int64_t channel = 0; channel < kBlockChannels; channel += kLanes) {
      if constexpr (kIntoBlock) {
        TransposeTile(from + in_planes(channel, pixel), pixels, to + in_block(channel, pixel), kBlockChannels);
      } else {
        TransposeTile(from + in_block(channel, pixel), kBlockChannels, to + in_planes(channel, pixel), pixels);
      }
    }
  }
  for (; pixel < pixels; ++pixel) {
    for (int64_t channel = 0; channel < kBlockChannels; ++channel) {
      const int64_t plane = in_planes(channel, pixel), block = in_block(channel, pixel);
      to[kIntoBlock ? block : plane] = from[kIntoBlock ? plane : block];
    }
  }
}

template <typename Bits>
void ReorderBits(const TensorArg& x, const TensorArg& y) {
  const int64_t pixels = x.dims[2] * x.dims[3], block = pixels * kBlockChannels;
  const Bits* const from = x.as<const Bits>();
  Bits* const to = y.as<Bits>();
  ParallelFor(x.dims[0] * x.dims[1] / kBlockChannels, Grain(2 * sizeof(Bits) * block), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (y.in_blocks()) {
        MoveBlock<true>(from + i * block, pixels, to + i * block);
      } else {
        MoveBlock<false>(from + i * block, pixels, to + i * block);
      }
    }
  });
}

}  // namespace

const char* Reorder(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  if (x.layout == y.layout) {
    const int64_t extent[] = {x.count}, stride[] = {1};
    return CopyRegion({x.dtype, extent, x.data, stride, y.data, stride});
  }
  switch (SizeOf(x.dtype)) {
    case 4:
      ReorderBits<uint32_t>(x, y);
      return nullptr;
    case 2:
      ReorderBits<uint16_t>(x, y);
      return nullptr;
    default:
      return "reorder: elements of neither 16 nor 32 bits";
  }
}

}  // namespace oneflow::cpu
