// A digest of a tensor's bits, the same on every device and in any order of its elements: for comparing copies without
// moving them.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace oneflow {

// The part of element `index` whose bits are `bits`. The digest is the sum of all parts, modulo 2^32. (The mixer is the
// finaliser of MurmurHash3, which is public domain.)
OF_HOST_DEVICE inline uint32_t DigestPart(uint64_t index, uint64_t bits) {
  uint64_t h = bits + 0x9E3779B97F4A7C15ull * (index + 1);
  h ^= h >> 33;
  h *= 0xFF51AFD7ED558CCDull;
  h ^= h >> 33;
  h *= 0xC4CEB9FE1A85EC53ull;
  h ^= h >> 33;
  return static_cast<uint32_t>(h);
}

}  // namespace oneflow
