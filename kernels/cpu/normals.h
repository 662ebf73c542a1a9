// Uniform and normal numbers of random bits, a vector at a time.
#pragma once

#include <cstring>

#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

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

}  // namespace oneflow::cpu
