// bf16 in host memory: the upper half of an f32, rounded to nearest even. NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace oneflow {

inline uint16_t ToBFloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40);  // rounding could carry a NaN's bits into infinity
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace oneflow
