#include "kernels/random_fill.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"

namespace oneflow {
namespace cpu {
namespace {

// In [0, 1), with 24 random bits.
OF_INLINE F32s ToUniform(U32s bits) { return __builtin_convertvector((I32s)(bits >> 8), F32s) * (1.0f / 16777216.0f); }

// The natural logarithm of 0 < x <= 1, not denormal, to 1e-7 relative (Cephes: x = 2^n m, sqrt(1/2) <= m < sqrt(2),
// degree 8 in m - 1).
OF_INLINE F32s Log(F32s x) {
  const I32s bits = (I32s)x;
  const I32s shifted = bits - 0x3f3504f3;  // of sqrt(1/2)
  const F32s n = __builtin_convertvector(shifted >> 23, F32s);
  const F32s m = (F32s)(bits - (shifted & (int32_t)0xff800000)) - 1.0f;
  F32s p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const F32s m2 = m * m;
  F32s y = p * m * m2 + n * -2.12194440e-4f;
  y = y - m2 * 0.5f;
  return m + y + n * 0.693359375f;
}

// cos(2 pi u) for 0 <= u < 1 to 1e-7: whole quarters of a turn are taken off, which is exact, and sine or cosine of
// what is left is a polynomial (Cephes).
OF_INLINE F32s CosineOfTurns(F32s u) {
  const F32s t = u * 4.0f;
  const F32s shifted = t + 12582912.0f;  // rounds to an integer, which sits in the low bits
  const I32s quarter = (I32s)shifted & 3;
  const F32s a = (t - (shifted - 12582912.0f)) * 1.57079632679489662f;
  const F32s a2 = a * a;
  F32s cosine = a2 * 2.443315711809948e-5f - 1.388731625493765e-3f;
  cosine = cosine * a2 + 4.166664568298827e-2f;
  cosine = cosine * (a2 * a2) - a2 * 0.5f + 1.0f;
  F32s sine = a2 * -1.9515295891e-4f + 8.3321608736e-3f;
  sine = sine * a2 - 1.6666654611e-1f;
  sine = sine * (a2 * a) + a;
  const F32s value = (quarter & 1) != 0 ? sine : cosine;
  return quarter == 1 || quarter == 2 ? -value : value;
}

// Of the elements whose bits these are, two words each.
OF_INLINE F32s Normals(const uint32_t* bits) {
  U32s low, high;
  std::memcpy(&low, bits, sizeof(low));
  std::memcpy(&high, bits + kLanes, sizeof(high));
  const U32s even = ForLanes<U32s>([](uint32_t lane) OF_INLINED { return 2 * lane; });
  const F32s u = ToUniform(__builtin_shuffle(low, high, even));
  const F32s v = ToUniform(__builtin_shuffle(low, high, even + 1));
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

}  // namespace
}  // namespace cpu

void FillNormal(uint64_t key, uint64_t first, int64_t n, float deviation, float* out) {
  cpu::ForEachGroup<2>(key, first, n, [&](const uint32_t* bits, int64_t i, int64_t skip, int64_t count) {
    constexpr int64_t kNormals = cpu::kPhiloxGroup / 2;
    float values[kNormals];
    for (int64_t at = 0; at < kNormals; at += cpu::kLanes) {
      cpu::Store(values + at, cpu::Normals(bits + 2 * at) * deviation);
    }
    std::memcpy(out + i, values + skip, count * sizeof(float));
  });
}

void FillUniform(uint64_t key, uint64_t first, int64_t n, float bound, float* out) {
  cpu::ForEachGroup<1>(key, first, n, [&](const uint32_t* bits, int64_t i, int64_t skip, int64_t count) {
    float values[cpu::kPhiloxGroup];
    for (int64_t at = 0; at < cpu::kPhiloxGroup; at += cpu::kLanes) {
      cpu::U32s draw;
      std::memcpy(&draw, bits + at, sizeof(draw));
      cpu::Store(values + at, (cpu::ToUniform(draw) * 2.0f - 1.0f) * bound);
    }
    std::memcpy(out + i, values + skip, count * sizeof(float));
  });
}

}  // namespace oneflow
