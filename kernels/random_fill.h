// Random numbers of consecutive logical elements in host memory, for initial values. An element's value depends on key
// and index only, not on where a call begins or ends.
#pragma once

#include <cstdint>

namespace oneflow {

// bound * (2 u - 1) for elements [first, first + n), u = ToUniform(RandomBits(key, 0, element)).
void FillUniform(uint64_t key, uint64_t first, int64_t n, float bound, float* out);

// deviation * z, z being standard normal: by Box and Muller (1958) from the bits of elements 2 i and 2 i + 1, for i in
// [first, first + n). |z| is at most 5.8.
void FillNormal(uint64_t key, uint64_t first, int64_t n, float deviation, float* out);

}  // namespace oneflow
