// The functions of elementwise ops on vectors of floats: what their own kernels compute, what fused ones do of them,
// and `elementwise` of several. XOf(x) and XOf(a, b) are those of elementwise_functions.h, in whose alphabet Exp, Sqrt,
// Tanh, Erf and Abs come from vec.h.
#pragma once

#include <cmath>

#include "kernels/cpu/vec.h"
#include "oneflow_core/elementwise_functions.h"

namespace oneflow::cpu {

// Rare in models: the library's scalar functions are good enough.
template <typename F>
OF_INLINE F32s LaneByLane(F32s x, F f) {
  for (int i = 0; i < kLanes; ++i) x[i] = f(x[i]);
  return x;
}
OF_INLINE F32s Log(F32s x) {
  return LaneByLane(x, [](float a) { return std::log(a); });
}
OF_INLINE F32s Log1p(F32s x) {
  return LaneByLane(x, [](float a) { return std::log1p(a); });
}
OF_INLINE F32s Sin(F32s x) {
  return LaneByLane(x, [](float a) { return std::sin(a); });
}
OF_INLINE F32s Cos(F32s x) {
  return LaneByLane(x, [](float a) { return std::cos(a); });
}
OF_INLINE F32s Phi(F32s x) {
  constexpr float kSqrtHalf = 0.70710678118654752f;  // 1 / sqrt(2)
  return 0.5f + 0.5f * Erf(x * kSqrtHalf);
}
OF_INLINE F32s Choose(I32s condition, F32s a, F32s b) { return condition ? a : b; }
OF_INLINE F32s Choose(I32s condition, float a, F32s b) { return condition ? Splat(a) : b; }
OF_INLINE F32s Choose(I32s condition, float a, float b) { return condition ? Splat(a) : Splat(b); }

// The slope of gelu, Phi(x) + x phi(x), to 2.5e-7: both of these have the exponential e = exp(-x^2 / 2) in them, as
//   Phi(-|x|) = e (c1 t + c2 t^2 + ... + c5 t^5),  t = 1 / (1 + c |x|)       (Abramowitz and Stegun, 7.1.26)
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

#define OF_DEFINE_FUNCTION(Name, op, f, ...) \
  OF_INLINE F32s Name##Of(F32s x) { return f; }
ONEFLOW_UNARY_FUNCTIONS(OF_DEFINE_FUNCTION)
#undef OF_DEFINE_FUNCTION
#define OF_DEFINE_FUNCTION(Name, op, f, ...) \
  OF_INLINE F32s Name##Of(F32s a, F32s b) { return f; }
ONEFLOW_BINARY_FUNCTIONS(OF_DEFINE_FUNCTION)
#undef OF_DEFINE_FUNCTION
#define OF_DEFINE_FUNCTION(Name, op, f, ...) \
  OF_INLINE F32s Name##Of(F32s dy, F32s x) { return f; }
ONEFLOW_GRADIENT_FUNCTIONS(OF_DEFINE_FUNCTION)
#undef OF_DEFINE_FUNCTION

}  // namespace oneflow::cpu
