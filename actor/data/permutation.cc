#include "actor/data/permutation.h"

#include "kernels/random.h"

namespace oneflow {
namespace {

uint64_t Feistel(uint64_t key, int half_bits, uint64_t value) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (uint32_t round = 0; round < 4; ++round) {
    const Philox4 mixed = Philox(key, static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), round, 0);
    const uint64_t next = left ^ (((uint64_t{mixed.x[1]} << 32) | mixed.x[0]) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

uint64_t PermutedIndex(uint64_t key, uint64_t n, uint64_t position) {
  int half_bits = 1;
  while (half_bits < 31 && (uint64_t{1} << (2 * half_bits)) < n) ++half_bits;
  do {
    position = Feistel(key, half_bits, position);
  } while (position >= n);
  return position;
}

uint64_t RandomIndex(uint64_t key, uint64_t n, uint64_t position) {
  const Philox4 bits = Philox(key, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 1);
  return ((uint64_t{bits.x[1]} << 32) | bits.x[0]) % n;
}

}  // namespace oneflow
