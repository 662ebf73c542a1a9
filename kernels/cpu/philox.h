// Random bits of consecutive elements (kernels/random.h), eight Philox blocks side by side.
#pragma once

#include <cstring>

#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

inline constexpr int64_t kPhiloxGroup = 32;  // elements: eight blocks of four

// The bits of elements [first, first + kPhiloxGroup); `first` is a multiple of 4. The same as RandomBits() of each:
// eight blocks, their words in the lower halves of 64-bit lanes. The upper halves hold garbage, which a product of
// lower halves does not see.
OF_INLINE void GroupBits(uint64_t key, uint64_t step, uint64_t first, uint32_t* bits) {
  const U64x8 block = U64x8{0, 1, 2, 3, 4, 5, 6, 7} + (first >> 2);
  U64x8 c0 = block, c1 = block >> 32, c2 = U64x8{} + step, c3 = U64x8{} + (step >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const U64x8 p0 = MultiplyLower(c0, 0xD2511F53u), p1 = MultiplyLower(c2, 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  // Words 0 and 1, and 2 and 3, of a block share a lane; then the blocks are put one after another.
  const U64x8 lower = (c0 & 0xffffffffu) | (c1 << 32), upper = (c2 & 0xffffffffu) | (c3 << 32);
  const U64x8 blocks[2] = {__builtin_shuffle(lower, upper, U64x8{0, 8, 1, 9, 2, 10, 3, 11}),
                           __builtin_shuffle(lower, upper, U64x8{4, 12, 5, 13, 6, 14, 7, 15})};
  std::memcpy(bits, blocks, sizeof(blocks));
}

}  // namespace oneflow::cpu
