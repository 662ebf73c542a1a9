// Counter-based random numbers (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
// counted by logical element index, so that a tensor does not depend on how it is split. Shared by all devices and by
// initialisers.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"

namespace oneflow {

struct Philox4 {
  uint32_t x[4];
};

// Ten rounds on the counter (c0..c3) under the 64-bit key.
OF_HOST_DEVICE inline Philox4 Philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c0 = n0;
    c1 = static_cast<uint32_t>(p1);
    c2 = n2;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The key of a stream of random numbers: the job's seed and a fingerprint of who draws them (splitmix64 of their mix).
OF_HOST_DEVICE inline uint64_t RandomKey(uint64_t seed, uint64_t fingerprint) {
  uint64_t z = seed * 0x9E3779B97F4A7C15ull + fingerprint;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// 32 random bits for logical element `index` at `step`: one Philox block serves four consecutive elements.
OF_HOST_DEVICE inline uint32_t RandomBits(uint64_t key, uint64_t step, uint64_t index) {
  const uint64_t block = index >> 2;
  return Philox(key, static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(step),
                static_cast<uint32_t>(step >> 32))
      .x[index & 3];
}

// In [0, 1), with 24 random bits.
OF_HOST_DEVICE inline float ToUniform(uint32_t bits) { return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f); }

// What a dropout keeps: elements whose upper 24 bits are at least this, so ToUniform(bits) >= rate; and times what.
inline uint32_t DropThreshold(double rate) {
  return static_cast<uint32_t>(std::ceil(static_cast<double>(static_cast<float>(rate)) * 16777216.0));
}
inline float KeptScale(double rate) { return rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0f; }

}  // namespace oneflow
