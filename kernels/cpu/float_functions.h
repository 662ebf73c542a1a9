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
// x less the nearest multiple n of pi/2, and n: in double precision, so that the difference of a large x is as good as
// that of a small one.
struct QuarterTurns {
  F32s rest;
  I32s n;
};
OF_INLINE QuarterTurns WithoutQuarterTurns(F32s x) {
  typedef float Floats __attribute__((vector_size(OF_REGISTER_BYTES / 2), may_alias));
  typedef int32_t Ints __attribute__((vector_size(OF_REGISTER_BYTES / 2), may_alias));
  typedef double Doubles __attribute__((vector_size(OF_REGISTER_BYTES)));
  typedef int64_t Longs __attribute__((vector_size(OF_REGISTER_BYTES)));
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: the integer is in the low bits
  alignas(64) float from[kLanes], rest[kLanes];
  alignas(64) int32_t n[kLanes];
  Store(from, x);
#pragma GCC unroll 2
  for (int64_t half = 0; half < kLanes; half += kLanes / 2) {
    const Doubles v = __builtin_convertvector(*reinterpret_cast<const Floats*>(from + half), Doubles);
    const Doubles shifted = v * 0.63661977236758134 + kShift, turns = shifted - kShift;  // 2 / pi
    const Doubles r = v - turns * 1.5707963267948966 - turns * 6.123233995736766e-17;
    *reinterpret_cast<Floats*>(rest + half) = __builtin_convertvector(r, Floats);
    *reinterpret_cast<Ints*>(n + half) = __builtin_convertvector((Longs)shifted, Ints);
  }
  return {Load(rest), (I32s)Load(reinterpret_cast<const float*>(n))};
}
// sin and cos of the rest (Cephes), as a number of quarter turns more makes of them; to 1e-7 relative.
OF_INLINE F32s SinOfTurns(const QuarterTurns& x, int quarters) {
  const F32s r = x.rest, z = r * r;
  const F32s sin = ((z * -1.9515295891e-4f + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
  const F32s cos =
      ((z * 2.443315711809948e-5f - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const I32s n = x.n + quarters;
  const F32s y = (n & 1) != 0 ? cos : sin;
  return (F32s)((I32s)y ^ ((n & 2) << 30));
}
OF_INLINE F32s Sin(F32s x) { return SinOfTurns(WithoutQuarterTurns(x), 0); }
OF_INLINE F32s Cos(F32s x) { return SinOfTurns(WithoutQuarterTurns(x), 1); }
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
