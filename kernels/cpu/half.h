// The 16-bit floating types as storage: conversion to and from float, rounding to nearest even.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace oneflow::cpu {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  _Float16 value;
};

inline float ToFloat(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
inline float ToFloat(Float16 x) { return static_cast<float>(x.value); }

inline void FromFloat(float x, BFloat16* y) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) {  // rounding could carry a NaN's bits into infinity
    y->bits = static_cast<uint16_t>((bits >> 16) | 0x40);
    return;
  }
  y->bits = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline void FromFloat(float x, Float16* y) { y->value = static_cast<_Float16>(x); }

// An attribute's value as an element of any type.
template <typename T>
T As(double value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    T result;
    FromFloat(static_cast<float>(value), &result);
    return result;
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace oneflow::cpu
