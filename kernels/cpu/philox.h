// Random bits of consecutive elements (kernels/random.h). A register computes one Philox block in each 64-bit lane.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

inline constexpr int64_t kPhiloxGroup = 32;  // elements: eight blocks of four

inline constexpr int64_t kBlocks = sizeof(U64s) / sizeof(uint64_t);

// The words of blocks [first, first + kBlocks). They are computed in the lower halves of 64-bit lanes; the upper halves
// hold garbage, which MultiplyLower() ignores.
OF_INLINE void BlockBits(uint64_t key, uint64_t step, uint64_t first, uint32_t* bits) {
  const U64s block = ForLanes<U64s>([](uint64_t lane) OF_INLINED { return lane; }) + first;
  U64s c0 = block, c1 = block >> 32, c2 = U64s{} + step, c3 = U64s{} + (step >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const U64s p0 = MultiplyLower(c0, 0xD2511F53u), p1 = MultiplyLower(c2, 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  // Words 0 and 1, and 2 and 3, of a block share a lane; then the blocks are put one after another.
  const U64s lower = (c0 & 0xffffffffu) | (c1 << 32), upper = (c2 & 0xffffffffu) | (c3 << 32);
  const auto in_turn = [](uint64_t lane) OF_INLINED { return lane / 2 + lane % 2 * kBlocks; };
  const U64s order = ForLanes<U64s>(in_turn);
  const U64s blocks[2] = {__builtin_shuffle(lower, upper, order), __builtin_shuffle(lower, upper, order + kBlocks / 2)};
  std::memcpy(bits, blocks, sizeof(blocks));
}

// The bits of elements [first, first + kPhiloxGroup); `first` is a multiple of 4. The same as RandomBits() of each.
OF_INLINE void GroupBits(uint64_t key, uint64_t step, uint64_t first, uint32_t* bits) {
  for (int64_t element = 0; element < kPhiloxGroup; element += 4 * kBlocks) {
    BlockBits(key, step, (first + element) >> 2, bits + element);
  }
}

// body(i, bits, lanes) for elements i of [0, n), a vector at a time, whose logical indices begin at `index`.
template <typename Body>
OF_INLINE void ForRandomBits(uint64_t key, uint64_t step, uint64_t index, int64_t n, Body&& body) {
  alignas(64) uint32_t group[kPhiloxGroup + kLanes];  // the last vector may reach beyond the group
  for (int64_t done = 0; done < n;) {
    const int64_t skip = (index + done) & 3;  // a run may begin inside a block
    GroupBits(key, step, index + done - skip, group);
    const int64_t count = std::min(n - done, kPhiloxGroup - skip);
    VecLoop(count, [&](int64_t i, auto lanes) OF_INLINED {
      U32s bits;
      std::memcpy(&bits, group + skip + i, sizeof(bits));
      body(done + i, bits, lanes);
    });
    done += count;
  }
}

}  // namespace oneflow::cpu
