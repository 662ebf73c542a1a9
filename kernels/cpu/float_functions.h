// The functions of elementwise ops on vectors of floats: what their own kernels compute, what fused ones do of them,
// and `elementwise` of several.
#pragma once

#include <cmath>

#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

// Rare in models: the library's scalar function is good enough.
OF_INLINE F32s LogOf(F32s x) {
  for (int i = 0; i < kLanes; ++i) x[i] = std::log(x[i]);
  return x;
}
OF_INLINE F32s RsqrtOf(F32s x) { return 1.0f / Sqrt(x); }
OF_INLINE F32s SigmoidOf(F32s x) { return 1.0f / (1.0f + Exp(-x)); }

// The ReLU, written so that NaN stays NaN: it is not < 0.
OF_INLINE F32s Positive(F32s x) { return x < 0.0f ? Splat(0) : x; }
// dy where y passed a ReLU, so also where y is NaN; y may be what came out of it or what went in.
OF_INLINE F32s ReluSlope(F32s y, F32s dy) { return y <= 0.0f ? Splat(0) : dy; }

// x Phi(x) with the exact normal distribution, and its slope Phi(x) + x phi(x) to 2.5e-7: both of these have the
// exponential e = exp(-x^2 / 2) in them, as
//   Phi(-|x|) = e (c1 t + c2 t^2 + ... + c5 t^5),  t = 1 / (1 + c |x|)       (Abramowitz and Stegun, 7.1.26)
OF_INLINE F32s GeluOf(F32s x) {
  constexpr float kSqrtHalf = 0.70710678118654752f;  // 1 / sqrt(2)
  return x * (0.5f + 0.5f * Erf(x * kSqrtHalf));
}
OF_INLINE F32s GeluSlope(F32s x) {
  constexpr float kInvSqrt2Pi = 0.39894228040143268f;  // 1 / sqrt(2 pi)
  const F32s e = ExpBelowZero(-0.5f * x * x);
  const F32s t = 1.0f / (1.0f + 0.23164189f * Abs(x));
  F32s p = t * 0.530702714f - 0.726576014f;
  p = p * t + 0.710706870f;
  p = p * t - 0.142248368f;
  p = p * t + 0.127414796f;
  const F32s tail = p * t * e;
  return (x < 0 ? tail : 1.0f - tail) + x * (kInvSqrt2Pi * e);
}

// Written so that a NaN in either operand comes out.
OF_INLINE F32s LargerOf(F32s a, F32s b) { return (a > b) | (a != a) ? a : b; }
OF_INLINE F32s SmallerOf(F32s a, F32s b) { return (a < b) | (a != a) ? a : b; }
// 1 beside a NaN, which is neither less nor equal.
OF_INLINE F32s HeavisideOf(F32s a, F32s b) {
  const F32s unless_less = a == b ? Splat(0.5f) : Splat(1);
  return a < b ? Splat(0) : unless_less;
}

}  // namespace oneflow::cpu
