// The 16-bit floating types as storage: conversion to and from float, rounding to nearest even.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/bfloat16.h"

namespace oneflow::cpu {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  _Float16 value;
};

inline float ToFloat(BFloat16 x) { return FromBFloat16(x.bits); }
inline float ToFloat(Float16 x) { return static_cast<float>(x.value); }

inline void FromFloat(float x, BFloat16* y) { y->bits = ToBFloat16(x); }
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
