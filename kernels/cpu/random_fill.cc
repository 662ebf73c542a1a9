#include "kernels/random_fill.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"

namespace oneflow {
namespace cpu {
namespace {

// In [0, 1), with 24 random bits.
OF_INLINE F32x16 ToUniform(U32x16 bits) {
  return __builtin_convertvector((I32x16)(bits >> 8), F32x16) * (1.0f / 16777216.0f);
}

// The natural logarithm of 0 < x <= 1, not denormal, to 1e-7 relative (Cephes: x = 2^n m, sqrt(1/2) <= m < sqrt(2),
// degree 8 in m - 1).
OF_INLINE F32x16 Log(F32x16 x) {
  const I32x16 bits = (I32x16)x;
  const I32x16 shifted = bits - 0x3f3504f3;  // of sqrt(1/2)
  const F32x16 n = __builtin_convertvector(shifted >> 23, F32x16);
  const F32x16 m = (F32x16)(bits - (shifted & (int32_t)0xff800000)) - 1.0f;
  F32x16 p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const F32x16 m2 = m * m;
  F32x16 y = p * m * m2 + n * -2.12194440e-4f;
  y = y - m2 * 0.5f;
  return m + y + n * 0.693359375f;
}

// cos(2 pi u) for 0 <= u < 1 to 1e-7: whole quarters of a turn are taken off, which is exact, and sine or cosine of
// what is left is a polynomial (Cephes).
OF_INLINE F32x16 CosineOfTurns(F32x16 u) {
  const F32x16 t = u * 4.0f;
  const F32x16 shifted = t + 12582912.0f;  // rounds to an integer, which sits in the low bits
  const I32x16 quarter = (I32x16)shifted & 3;
  const F32x16 a = (t - (shifted - 12582912.0f)) * 1.57079632679489662f;
  const F32x16 a2 = a * a;
  F32x16 cosine = a2 * 2.443315711809948e-5f - 1.388731625493765e-3f;
  cosine = cosine * a2 + 4.166664568298827e-2f;
  cosine = cosine * (a2 * a2) - a2 * 0.5f + 1.0f;
  F32x16 sine = a2 * -1.9515295891e-4f + 8.3321608736e-3f;
  sine = sine * a2 - 1.6666654611e-1f;
  sine = sine * (a2 * a) + a;
  const F32x16 value = (quarter & 1) != 0 ? sine : cosine;
  return quarter == 1 || quarter == 2 ? -value : value;
}

constexpr int64_t kNormals = kPhiloxGroup / 2;  // of one group of bits
static_assert(kNormals == kLanes);

// Of the elements whose bits these are.
OF_INLINE F32x16 Normals(const uint32_t* bits) {
  U32x16 low, high;
  std::memcpy(&low, bits, sizeof(low));
  std::memcpy(&high, bits + kLanes, sizeof(high));
  const U32x16 even = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  const F32x16 u = ToUniform(__builtin_shuffle(low, high, even));
  const F32x16 v = ToUniform(__builtin_shuffle(low, high, even + 1));
  // 1 - u is in (0, 1], where the logarithm is finite.
  return Sqrt(Log(1.0f - u) * -2.0f) * CosineOfTurns(v);
}

// Calls body(bits, i, skip, count) for pieces of [0, n): `count` elements from i on, which are those behind the first
// `skip` of a group whose bits these are, kWords of them each.
template <int kWords, typename Body>
void ForEachGroup(uint64_t key, uint64_t first, int64_t n, const Body& body) {
  constexpr int64_t kGroup = kPhiloxGroup / kWords;
  ParallelFor((n + kGroup - 1) / kGroup + 1, Grain(16 * kGroup * sizeof(float)), [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t bits[kPhiloxGroup];
    const int64_t lead = static_cast<int64_t>(first % kGroup);  // groups begin at multiples of their size
    for (int64_t group = begin; group < end; ++group) {
      const int64_t at = group * kGroup - lead;
      const int64_t skip = std::max<int64_t>(0, -at), stop = std::min(kGroup, n - at);
      if (skip >= stop) continue;
      GroupBits(key, 0, (first + at) * kWords, bits);
      body(bits, at + skip, skip, stop - skip);
    }
  });
}

// Stores lanes [skip, skip + count) of `values`.
OF_INLINE void StoreSome(F32x16 values, int64_t skip, int64_t count, float* out) {
  if (count == kLanes) return Store(out, values);
  float all[kLanes];
  Store(all, values);
  std::memcpy(out, all + skip, count * sizeof(float));
}

}  // namespace
}  // namespace cpu

void FillNormal(uint64_t key, uint64_t first, int64_t n, float deviation, float* out) {
  cpu::ForEachGroup<2>(key, first, n, [&](const uint32_t* bits, int64_t i, int64_t skip, int64_t count) {
    cpu::StoreSome(cpu::Normals(bits) * deviation, skip, count, out + i);
  });
}

void FillUniform(uint64_t key, uint64_t first, int64_t n, float bound, float* out) {
  cpu::ForEachGroup<1>(key, first, n, [&](const uint32_t* bits, int64_t i, int64_t skip, int64_t count) {
    float values[cpu::kPhiloxGroup];
    for (int64_t at = 0; at < cpu::kPhiloxGroup; at += cpu::kLanes) {
      cpu::U32x16 draw;
      std::memcpy(&draw, bits + at, sizeof(draw));
      cpu::Store(values + at, (cpu::ToUniform(draw) * 2.0f - 1.0f) * bound);
    }
    std::memcpy(out + i, values + skip, count * sizeof(float));
  });
}

}  // namespace oneflow
