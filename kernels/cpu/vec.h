// As many floats at a time as a register holds, and the elementary functions on them, in GCC's vector types: sixteen
// with AVX-512, eight with AVX2, else four. Loops over a row go through VecLoop, which hands the last lanes over as a
// partial vector.
//
//   VecLoop(n, [&](int64_t i, auto lanes) { Store(y + i, Exp(Load(x + i, lanes)), lanes); });
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#ifdef __x86_64__
#include <immintrin.h>
#endif

// Vectors are only passed between functions that are inlined into each other, so their calling convention does not
// matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace oneflow::cpu {

// GCC 12 keeps vectors that are wider than a register in memory between any two operations.
#if defined(__AVX512F__)
#define OF_REGISTER_BYTES 64
#elif defined(__AVX2__)
#define OF_REGISTER_BYTES 32
#else
#define OF_REGISTER_BYTES 16
#endif
inline constexpr int64_t kLanes = OF_REGISTER_BYTES / sizeof(float);
// Floats of a cache line. Memory layouts use this unit, so that they are the same on every processor. A multiple of
// kLanes.
inline constexpr int64_t kLine = 16;
static_assert(kLine % kLanes == 0);

typedef float F32s __attribute__((vector_size(OF_REGISTER_BYTES)));
typedef int32_t I32s __attribute__((vector_size(OF_REGISTER_BYTES)));
typedef uint32_t U32s __attribute__((vector_size(OF_REGISTER_BYTES)));
typedef uint64_t U64s __attribute__((vector_size(OF_REGISTER_BYTES)));
typedef float F32sUnaligned __attribute__((vector_size(OF_REGISTER_BYTES), aligned(4), may_alias));
typedef uint32_t U32Unaligned __attribute__((aligned(2), may_alias));

#define OF_INLINE inline __attribute__((always_inline))
#define OF_INLINED __attribute__((always_inline))  // of a lambda: [](F32s x) OF_INLINED { ... }

OF_INLINE F32s Splat(float x) { return x - F32s{}; }  // x + 0 would cost an addition: it turns -0 into 0

template <typename Vector, typename F, size_t... kLane>
OF_INLINE Vector ForLanes(F f, std::index_sequence<kLane...>) {
  return Vector{f(kLane)...};
}
// f(0), f(1), ... in the lanes of a vector.
template <typename Vector, typename F>
OF_INLINE Vector ForLanes(F f) {
  return ForLanes<Vector>(f, std::make_index_sequence<sizeof(Vector) / sizeof(Vector{}[0])>());
}

// All lanes, or the first `count` of them.
struct AllLanes {};
struct SomeLanes {
  int count;
};

// -1 in the given lanes, 0 in the others.
OF_INLINE I32s Mask(SomeLanes lanes) {
  return ForLanes<I32s>([](size_t lane) OF_INLINED { return static_cast<int32_t>(lane); }) < lanes.count;
}

OF_INLINE F32s Load(const float* p, AllLanes = {}) { return *reinterpret_cast<const F32sUnaligned*>(p); }
OF_INLINE void Store(float* p, F32s v, AllLanes = {}) { *reinterpret_cast<F32sUnaligned*>(p) = v; }

// Lanes beyond the count are `fill`; a store leaves their memory alone.
OF_INLINE F32s Load(const float* p, SomeLanes lanes, float fill = 0) {
#ifdef __AVX512F__
  return (F32s)_mm512_mask_loadu_ps((__m512)Splat(fill), static_cast<__mmask16>((1u << lanes.count) - 1), p);
#elif defined(__AVX2__)
  const I32s mask = Mask(lanes);
  return mask ? (F32s)_mm256_maskload_ps(p, (__m256i)mask) : Splat(fill);
#else
  F32s v = Splat(fill);
  for (int i = 0; i < lanes.count; ++i) v[i] = p[i];
  return v;
#endif
}
OF_INLINE void Store(float* p, F32s v, SomeLanes lanes) {
#ifdef __AVX512F__
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << lanes.count) - 1), (__m512)v);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(p, (__m256i)Mask(lanes), (__m256)v);
#else
  for (int i = 0; i < lanes.count; ++i) p[i] = v[i];
#endif
}
OF_INLINE F32s Load(const float* p, AllLanes, float) { return Load(p); }

// A store past the caches. It does not read the lines that it fills. REQUIRES: p is aligned to a vector, and the thread
// calls FinishStores() before another one reads the memory.
OF_INLINE void StorePastCaches(float* p, F32s v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, (__m256)v);
#elif defined(__x86_64__)
  _mm_stream_ps(p, (__m128)v);
#else
  Store(p, v);
#endif
}
OF_INLINE void FinishStores() {
#ifdef __x86_64__
  _mm_sfence();
#endif
}

// v with `fill` in the lanes beyond the count.
OF_INLINE F32s Keep(F32s v, SomeLanes lanes, float fill = 0) { return Mask(lanes) ? v : Splat(fill); }
OF_INLINE F32s Keep(F32s v, AllLanes, float = 0) { return v; }

// body(i, lanes) for i = 0, kLanes, ... < n.
template <typename Body>
OF_INLINE void VecLoop(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, AllLanes{});
  if (i < n) body(i, SomeLanes{static_cast<int>(n - i)});
}

// v as a rounded value: the compiler does not fuse the product that made it with a later addition.
OF_INLINE F32s Apart(F32s v) {
#ifdef __x86_64__
  __asm__("" : "+x"(v));
#else
  __asm__("" : "+m"(v));
#endif
  return v;
}

// If `a` is NaN these give b; if `b` is NaN they give NaN.
OF_INLINE F32s Max(F32s a, F32s b) { return a > b ? a : b; }
OF_INLINE F32s Min(F32s a, F32s b) { return a < b ? a : b; }

// Combines the lanes by halving; for eight lanes ((0+4)+(2+6))+((1+5)+(3+7)).
template <int64_t kHalf = kLanes / 2, typename Combine>
OF_INLINE float Fold(F32s v, Combine combine) {
  const auto across = [](size_t lane) OF_INLINED { return static_cast<int32_t>(lane ^ kHalf); };
  v = combine(v, __builtin_shuffle(v, ForLanes<I32s>(across)));
  if constexpr (kHalf > 1)
    return Fold<kHalf / 2>(v, combine);
  else
    return v[0];
}
OF_INLINE float Sum(F32s v) {
  return Fold(v, [](F32s a, F32s b) OF_INLINED { return a + b; });
}
OF_INLINE float MaxOf(F32s v) {
  return Fold(v, [](F32s a, F32s b) OF_INLINED { return Max(a, b); });
}

// Transposes a square tile of rows: halves, quarters, ... change places across the diagonal.
template <int kHalf = kLanes / 2>
OF_INLINE void Transpose(F32s (&tile)[kLanes]) {
  // Lanes of the row pair (i, i + kHalf); kLanes and above are the second row's.
  constexpr int32_t kSecond = kLanes;
  const I32s low =
      ForLanes<I32s>([](int32_t lane) OF_INLINED { return (lane & kHalf) == 0 ? lane : lane - kHalf + kSecond; });
  const I32s high =
      ForLanes<I32s>([](int32_t lane) OF_INLINED { return (lane & kHalf) == 0 ? lane + kHalf : lane + kSecond; });
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kHalf) != 0) continue;
    const F32s a = tile[i], b = tile[i + kHalf];
    tile[i] = __builtin_shuffle(a, b, low);
    tile[i + kHalf] = __builtin_shuffle(a, b, high);
  }
  if constexpr (kHalf > 1) Transpose<kHalf / 2>(tile);
}

OF_INLINE F32s Sqrt(F32s x) {
#ifdef __AVX512F__
  // GCC 12 warns of uninitialized memory in the other spelling.
  return (F32s)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif defined(__AVX2__)
  return (F32s)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
  return (F32s)_mm_sqrt_ps((__m128)x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}
// The 64-bit products of the lanes' lower halves with a constant. With a plain `*` GCC 12 multiplies whole lanes, at a
// third of the speed.
OF_INLINE U64s MultiplyLower(U64s a, uint32_t b) {
#ifdef __AVX512F__
  return (U64s)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)(U64s{} + b));
#elif defined(__AVX2__)
  return (U64s)_mm256_mul_epu32((__m256i)a, (__m256i)(U64s{} + b));
#elif defined(__x86_64__)
  return (U64s)_mm_mul_epu32((__m128i)a, (__m128i)(U64s{} + b));
#else
  return (a & 0xffffffffu) * b;
#endif
}

OF_INLINE F32s Abs(F32s x) { return (F32s)((I32s)x & 0x7fffffff); }

// e^t to 1.2e-7 relative for -87.33 <= t <= 88.72 (Cephes: t = n ln2 + r, |r| <= ln2/2, degree 6 in r).
OF_INLINE F32s ExpInRange(F32s t) {
  // Adding 1.5 * 2^23 rounds to an integer; it sits in the low bits of the sum.
  const F32s shifted = t * 1.44269504f + 12582912.0f;
  const F32s n = shifted - 12582912.0f;
  F32s r = t - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  F32s p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return (F32s)((I32s)p + ((I32s)shifted << 23));
}
// e^x for all x; 0 below -87.33, infinity above 88.72.
OF_INLINE F32s Exp(F32s x) {
  const F32s low = Splat(-87.33654f), high = Splat(88.72283f);
  F32s y = ExpInRange(Min(Max(x, low), high));
  y = x < low ? Splat(0) : y;
  y = x > high ? Splat(INFINITY) : y;
  return x == x ? y : x;
}
// e^x for x <= 0. NaN gives 1.2e-38.
OF_INLINE F32s ExpBelowZero(F32s x) {
  const F32s low = Splat(-87.33654f);
  const F32s y = ExpInRange(Max(x, low));
  return x < low ? Splat(0) : y;
}

// 2^t; 0 below -126, 2^127 above 127, NaN for NaN. Relative error with kDegree 5: 1.5e-7; with 4: 2.7e-6, enough for
// results in bf16. (t = n + r, |r| <= 1/2: minimax fits of 2^r; n is added to the exponent.)
template <int kDegree>
OF_INLINE F32s Exp2(F32s x) {
  static_assert(kDegree == 4 || kDegree == 5);
  const F32s t = Min(Splat(127.0f), Max(Splat(-126.0f), x));  // in this order NaNs pass
  const F32s shifted = t + 12582912.0f;                       // 1.5 * 2^23: the integer is in the low bits
  const F32s r = t - (shifted - 12582912.0f);
  F32s p;
  if constexpr (kDegree == 4) {
    p = r * 9.57010191e-3f + 5.59178603e-2f;
    p = p * r + 2.40247448e-1f;
    p = p * r + 6.93121815e-1f;
    p = p * r + 9.99999261e-1f;
  } else {
    p = r * 1.32764720e-3f + 9.67554133e-3f;
    p = p * r + 5.55071327e-2f;
    p = p * r + 2.40221197e-1f;
    p = p * r + 6.93146967e-1f;
    p = p * r + 1.00000007f;
  }
  return x < -126.0f ? Splat(0) : (F32s)((I32s)p + ((I32s)shifted << 23));
}

// An odd over an even polynomial in x, the form of the minimax fits of tanh and erf.
template <int kOdd, int kEven>
OF_INLINE F32s OddRational(F32s x, const float (&odd)[kOdd], const float (&even)[kEven]) {
  const F32s x2 = x * x;
  F32s p = Splat(odd[0]), q = Splat(even[0]);
#pragma GCC unroll 8
  for (int i = 1; i < kOdd; ++i) p = p * x2 + odd[i];
#pragma GCC unroll 8
  for (int i = 1; i < kEven; ++i) q = q * x2 + even[i];
  return x * p / q;
}

// tanh to 4e-7 relative; it is 1 in float beyond 7.9.
OF_INLINE F32s Tanh(F32s x) {
  constexpr float kOdd[] = {-2.76076847742355e-16f, 2.00018790482477e-13f, -8.60467152213735e-11f,
                            5.12229709037114e-08f,  1.48572235717979e-05f, 6.37261928875436e-04f,
                            4.89352455891786e-03f};
  constexpr float kEven[] = {1.19825839466702e-06f, 1.18534705686654e-04f, 2.26843463243900e-03f,
                             4.89352518554385e-03f};
  return OddRational(Max(Splat(-7.90531110763549805f), Min(Splat(7.90531110763549805f), x)), kOdd, kEven);
}

// The error function to 2e-7 absolute; it is 1 in float beyond 4.
OF_INLINE F32s Erf(F32s x) {
  constexpr float kOdd[] = {-2.72614225801306e-10f, 2.77068142495902e-08f,  -2.10102402082508e-06f,
                            -5.69250639462346e-05f, -7.34990630326855e-04f, -2.95459980854025e-03f,
                            -1.60960333262415e-02f};
  constexpr float kEven[] = {-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
                             -7.37332916720468e-03f, -1.42647390514189e-02f};
  return OddRational(Max(Splat(-4.0f), Min(Splat(4.0f), x)), kOdd, kEven);
}

}  // namespace oneflow::cpu
