// Sixteen floats at a time, and the elementary functions on them, in GCC's vector types: one AVX-512 register where
// there is one, several narrower ones elsewhere. Loops over a row go through VecLoop, which hands the last lanes over
// as a partial vector.
//
//   VecLoop(n, [&](int64_t i, auto lanes) { Store(y + i, Exp(Load(x + i, lanes)), lanes); });
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

// Vectors are only passed between functions that are inlined into each other, so their calling convention does not
// matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace oneflow::cpu {

inline constexpr int64_t kLanes = 16;

typedef float F32x16 __attribute__((vector_size(64)));
typedef int32_t I32x16 __attribute__((vector_size(64)));
typedef uint32_t U32x16 __attribute__((vector_size(64)));
typedef uint64_t U64x8 __attribute__((vector_size(64)));
typedef float F32x16Unaligned __attribute__((vector_size(64), aligned(4), may_alias));

#define OF_INLINE inline __attribute__((always_inline))
#define OF_INLINED __attribute__((always_inline))  // of a lambda: [](F32x16 x) OF_INLINED { ... }

OF_INLINE F32x16 Splat(float x) { return x - F32x16{}; }  // x + 0 would cost an addition: it turns -0 into 0

// All sixteen lanes, or the first `count` of them.
struct AllLanes {};
struct SomeLanes {
  int count;
};

OF_INLINE F32x16 Load(const float* p, AllLanes = {}) { return *reinterpret_cast<const F32x16Unaligned*>(p); }
OF_INLINE void Store(float* p, F32x16 v, AllLanes = {}) { *reinterpret_cast<F32x16Unaligned*>(p) = v; }

// Lanes beyond the count are `fill`; a store leaves their memory alone.
OF_INLINE F32x16 Load(const float* p, SomeLanes lanes, float fill = 0) {
#ifdef __AVX512F__
  return (F32x16)_mm512_mask_loadu_ps((__m512)Splat(fill), static_cast<__mmask16>((1u << lanes.count) - 1), p);
#else
  F32x16 v = Splat(fill);
  for (int i = 0; i < lanes.count; ++i) v[i] = p[i];
  return v;
#endif
}
OF_INLINE void Store(float* p, F32x16 v, SomeLanes lanes) {
#ifdef __AVX512F__
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << lanes.count) - 1), (__m512)v);
#else
  for (int i = 0; i < lanes.count; ++i) p[i] = v[i];
#endif
}
OF_INLINE F32x16 Load(const float* p, AllLanes, float) { return Load(p); }

// v with `fill` in the lanes beyond the count.
OF_INLINE F32x16 Keep(F32x16 v, SomeLanes lanes, float fill = 0) {
  const I32x16 index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return index < lanes.count ? v : Splat(fill);
}
OF_INLINE F32x16 Keep(F32x16 v, AllLanes, float = 0) { return v; }

// body(i, lanes) for i = 0, 16, ... < n.
template <typename Body>
OF_INLINE void VecLoop(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, AllLanes{});
  if (i < n) body(i, SomeLanes{static_cast<int>(n - i)});
}

// Of a NaN in `a` these give b, of one in `b` the NaN.
OF_INLINE F32x16 Max(F32x16 a, F32x16 b) { return a > b ? a : b; }
OF_INLINE F32x16 Min(F32x16 a, F32x16 b) { return a < b ? a : b; }

// The lanes combined by halving: ((0+8)+(4+12))+..., the same on every processor.
template <typename Combine>
OF_INLINE float Fold(F32x16 v, Combine combine) {
  const I32x16 by8 = {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7};
  const I32x16 by4 = {4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3};
  const I32x16 by2 = {2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1};
  const I32x16 by1 = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
  v = combine(v, __builtin_shuffle(v, by8));
  v = combine(v, __builtin_shuffle(v, by4));
  v = combine(v, __builtin_shuffle(v, by2));
  v = combine(v, __builtin_shuffle(v, by1));
  return v[0];
}
OF_INLINE float Sum(F32x16 v) {
  return Fold(v, [](F32x16 a, F32x16 b) OF_INLINED { return a + b; });
}
OF_INLINE float MaxOf(F32x16 v) {
  return Fold(v, [](F32x16 a, F32x16 b) OF_INLINED { return Max(a, b); });
}

// Transposes a 16x16 tile of rows: halves, quarters, eighths and sixteenths change places across the diagonal.
template <int kHalf = 8>
OF_INLINE void Transpose(F32x16 (&tile)[kLanes]) {
  I32x16 low = {}, high = {};  // lanes of the row pair (i, i + kHalf); 16 and above are the second row's
#pragma GCC unroll 16
  for (int lane = 0; lane < kLanes; ++lane) {
    low[lane] = (lane & kHalf) == 0 ? lane : lane - kHalf + 16;
    high[lane] = (lane & kHalf) == 0 ? lane + kHalf : lane + 16;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kHalf) != 0) continue;
    const F32x16 a = tile[i], b = tile[i + kHalf];
    tile[i] = __builtin_shuffle(a, b, low);
    tile[i + kHalf] = __builtin_shuffle(a, b, high);
  }
  if constexpr (kHalf > 1) Transpose<kHalf / 2>(tile);
}

OF_INLINE F32x16 Sqrt(F32x16 x) {
#ifdef __AVX512F__
  // Of the two spellings the one that GCC 12 does not call uninitialized.
  return (F32x16)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}
// The 64-bit products of the lower halves of lanes with a constant. Spelled out for AVX-512: GCC 12 would multiply
// whole lanes, at a third of the speed.
OF_INLINE U64x8 MultiplyLower(U64x8 a, uint32_t b) {
#ifdef __AVX512F__
  return (U64x8)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)(U64x8{} + b));
#else
  return (a & 0xffffffffu) * b;
#endif
}

// e^x to 1.2e-7 relative (Cephes: x = n ln2 + r, |r| <= ln2/2, degree 6 in r); 0 below -87.33, infinity above 88.72.
OF_INLINE F32x16 Exp(F32x16 x) {
  const F32x16 low = Splat(-87.33654f), high = Splat(88.72283f);
  const F32x16 t = Min(Max(x, low), high);
  // Adding 1.5 * 2^23 rounds to an integer; it sits in the low bits of the sum.
  const F32x16 shifted = t * 1.44269504f + 12582912.0f;
  const F32x16 n = shifted - 12582912.0f;
  F32x16 r = t - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  F32x16 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  F32x16 y = (F32x16)((I32x16)p + ((I32x16)shifted << 23));
  y = x < low ? Splat(0) : y;
  y = x > high ? Splat(INFINITY) : y;
  return x == x ? y : x;
}

// A ratio of polynomials in x^2, odd over even, as minimax fits of tanh and erf have it.
template <int kOdd, int kEven>
OF_INLINE F32x16 OddRational(F32x16 x, const float (&odd)[kOdd], const float (&even)[kEven]) {
  const F32x16 x2 = x * x;
  F32x16 p = Splat(odd[0]), q = Splat(even[0]);
#pragma GCC unroll 8
  for (int i = 1; i < kOdd; ++i) p = p * x2 + odd[i];
#pragma GCC unroll 8
  for (int i = 1; i < kEven; ++i) q = q * x2 + even[i];
  return x * p / q;
}

// tanh to 4e-7 relative; it is 1 in float beyond 7.9.
OF_INLINE F32x16 Tanh(F32x16 x) {
  constexpr float kOdd[] = {-2.76076847742355e-16f, 2.00018790482477e-13f, -8.60467152213735e-11f,
                            5.12229709037114e-08f,  1.48572235717979e-05f, 6.37261928875436e-04f,
                            4.89352455891786e-03f};
  constexpr float kEven[] = {1.19825839466702e-06f, 1.18534705686654e-04f, 2.26843463243900e-03f,
                             4.89352518554385e-03f};
  return OddRational(Max(Splat(-7.90531110763549805f), Min(Splat(7.90531110763549805f), x)), kOdd, kEven);
}

// The error function to 2e-7 absolute; it is 1 in float beyond 4.
OF_INLINE F32x16 Erf(F32x16 x) {
  constexpr float kOdd[] = {-2.72614225801306e-10f, 2.77068142495902e-08f,  -2.10102402082508e-06f,
                            -5.69250639462346e-05f, -7.34990630326855e-04f, -2.95459980854025e-03f,
                            -1.60960333262415e-02f};
  constexpr float kEven[] = {-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
                             -7.37332916720468e-03f, -1.42647390514189e-02f};
  return OddRational(Max(Splat(-4.0f), Min(Splat(4.0f), x)), kOdd, kEven);
}

}  // namespace oneflow::cpu
