// The 16-bit floating types as storage: conversion to and from float, rounding to nearest even; one at a time, and as
// the lanes of a vector, so that a kernel over an element type T computes in float and reads and writes T:
//
//   VecLoop(n, [&](int64_t i, auto lanes) { Store(y + i, Exp(Load(x + i, lanes)), lanes); });    x, y: pointers to T
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/bfloat16.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"
#include "kernels/float16.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/dtype_switch.h"

namespace oneflow::cpu {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  NativeFloat16 value;
};

inline float ToFloat(float x) { return x; }
inline float ToFloat(BFloat16 x) { return FromBFloat16(x.bits); }
inline float ToFloat(Float16 x) { return static_cast<float>(x.value); }

inline void FromFloat(float x, float* y) { *y = x; }
inline void FromFloat(float x, BFloat16* y) { y->bits = ToBFloat16(x); }
inline void FromFloat(float x, Float16* y) { y->value = static_cast<NativeFloat16>(x); }

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

typedef uint16_t U16s __attribute__((vector_size(OF_REGISTER_BYTES / 2)));
typedef uint16_t U16sUnaligned __attribute__((vector_size(OF_REGISTER_BYTES / 2), aligned(2), may_alias));

// The bits of bf16 as floats, and back. As ToBFloat16: a NaN keeps its upper bits and a set one among them.
OF_INLINE F32s Widen(U16s bits, const BFloat16*) { return (F32s)(__builtin_convertvector(bits, U32s) << 16); }
OF_INLINE U16s Narrow(F32s x, const BFloat16*) {
#ifdef __AVX512BF16__
  return (U16s)_mm512_cvtneps_pbh((__m512)x);  // numbers below 2^-126 become 0
#else
  const U32s bits = (U32s)x;
  const U32s rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return __builtin_convertvector((x == x ? rounded : bits | 0x400000) >> 16, U16s);
#endif
}

OF_INLINE F32s Widen(U16s bits, const Float16*) {
#ifdef __AVX512F__
  return (F32s)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
#elif defined(__AVX2__) && defined(__F16C__)
  return (F32s)_mm256_cvtph_ps((__m128i)bits);
#else
  F32s y;
  for (int i = 0; i < kLanes; ++i)
    y[i] = static_cast<float>(std::bit_cast<NativeFloat16>(static_cast<uint16_t>(bits[i])));
  return y;
#endif
}
OF_INLINE U16s Narrow(F32s x, const Float16*) {
#ifdef __AVX512F__
  return (U16s)_mm512_maskz_cvtps_ph(0xffff, (__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__) && defined(__F16C__)
  return (U16s)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  U16s y;
  for (int i = 0; i < kLanes; ++i) y[i] = std::bit_cast<uint16_t>(static_cast<NativeFloat16>(x[i]));
  return y;
#endif
}

template <typename T>
concept Half = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// A 16-bit float as a float; any other value unchanged.
template <typename T>
auto Value(T x) {
  if constexpr (Half<T>) {
    return ToFloat(x);
  } else {
    return x;
  }
}

template <Half T>
OF_INLINE F32s Load(const T* p, AllLanes = {}) {
  return Widen(*reinterpret_cast<const U16sUnaligned*>(p), p);
}
template <Half T>
OF_INLINE F32s Load(const T* p, AllLanes, float) {
  return Load(p);
}
template <Half T>
OF_INLINE F32s Load(const T* p, SomeLanes lanes, float fill = 0) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const U16s bits = (U16s)_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << lanes.count) - 1), p);
#else
  U16s bits = {};
  for (int i = 0; i < lanes.count; ++i) bits[i] = reinterpret_cast<const U16sUnaligned&>(*p)[i];
#endif
  return Keep(Widen(bits, p), lanes, fill);
}
template <Half T>
OF_INLINE void Store(T* p, F32s v, AllLanes = {}) {
  *reinterpret_cast<U16sUnaligned*>(p) = Narrow(v, p);
}
template <Half T>
OF_INLINE void Store(T* p, F32s v, SomeLanes lanes) {
  const U16s bits = Narrow(v, p);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << lanes.count) - 1), (__m256i)bits);
#else
  for (int i = 0; i < lanes.count; ++i) reinterpret_cast<U16sUnaligned&>(*p)[i] = bits[i];
#endif
}

// x as a T, in whatever that is stored.
template <typename T>
OF_INLINE F32s RoundedTo(F32s x) {
  if constexpr (Half<T>)
    return Widen(Narrow(x, static_cast<const T*>(nullptr)), static_cast<const T*>(nullptr));
  else
    return x;
}

// 32 numbers in a row, from floats: of bf16 a cache line. Past the caches (vec.h, StorePastCaches) where `kPast`, if
// whole lines can be stored at once; then `to` begins one.
template <bool kPast, typename T>
OF_INLINE void StoreLine(T* to, const float* from) {
#ifdef __AVX512F__
  if constexpr (kPast && std::is_same_v<T, BFloat16>) {
    const U16s low = Narrow(Load(from), to), high = Narrow(Load(from + kLanes), to);
    const auto line = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
                                              18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    StorePastCaches(reinterpret_cast<float*>(to), (F32s)line);
    return;
  }
#endif
  for (int64_t i = 0; i < 2 * kLine; i += kLanes) {
    if constexpr (kPast && kLanes == kLine && std::is_same_v<T, float>) {
      StorePastCaches(to + i, Load(from + i));
    } else {
      Store(to + i, Load(from + i));
    }
  }
}

// y[i] = x[i] for all elements, on all cores, in whichever floating types.
template <typename From, typename To>
void Convert(const From* x, To* y, int64_t n) {
  ParallelFor(n, Grain(sizeof(From) + sizeof(To)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) { Store(y + begin + i, Load(x + begin + i, lanes), lanes); });
  });
}

// body.operator()<T>() with the type of elements that `dtype` names; null, or what is wrong.
template <typename Body>
const char* ByFloat(DType dtype, Body&& body) {
  const auto run = [&]<typename T>() -> const char* {
    body.template operator()<T>();
    return nullptr;
  };
  return ByFloatDType<BFloat16, Float16>(dtype, run, []() -> const char* { return "the output is not floating"; });
}

}  // namespace oneflow::cpu
