// gelu(x) = x Phi(x) with the exact normal distribution, and dx = dy (Phi(x) + x phi(x)).
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

constexpr float kSqrtHalf = 0.70710678118654752f;    // 1 / sqrt(2)
constexpr float kInvSqrt2Pi = 0.39894228040143268f;  // 1 / sqrt(2 pi)

OF_INLINE F32s Phi(F32s x) { return 0.5f + 0.5f * Erf(x * kSqrtHalf); }

// Phi(x) + x phi(x) to 2.5e-7: both have the exponential e = exp(-x^2 / 2) in them, as
//   Phi(-|x|) = e (c1 t + c2 t^2 + ... + c5 t^5),  t = 1 / (1 + c |x|)       (Abramowitz and Stegun, 7.1.26)
OF_INLINE F32s Slope(F32s x) {
  const F32s e = ExpBelowZero(-0.5f * x * x);
  const F32s t = 1.0f / (1.0f + 0.23164189f * Abs(x));
  F32s p = t * 0.530702714f - 0.726576014f;
  p = p * t + 0.710706870f;
  p = p * t - 0.142248368f;
  p = p * t + 0.127414796f;
  const F32s tail = p * t * e;
  return (x < 0 ? tail : 1.0f - tail) + x * (kInvSqrt2Pi * e);
}

template <typename T>
const char* Gelu(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  T* const y = args.out[0].as<T>();
  ParallelFor(args.in[0].count, Grain(2 * sizeof(T)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      const F32s v = Load(x + begin + i, lanes);
      Store(y + begin + i, v * Phi(v), lanes);
    });
  });
  return nullptr;
}

// in: dy, x.
template <typename T>
const char* GeluGrad(const KernelArgs& args) {
  const T* const dy = args.in[0].as<const T>();
  const T* const x = args.in[1].as<const T>();
  T* const dx = args.out[0].as<T>();
  ParallelFor(args.in[0].count, Grain(3 * sizeof(T)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      i += begin;
      Store(dx + i, Load(dy + i, lanes) * Slope(Load(x + i, lanes)), lanes);
    });
  });
  return nullptr;
}

}  // namespace

KernelList GeluKernels() { return {OF_FLOAT_KERNELS("gelu", Gelu), OF_FLOAT_KERNELS("gelu_grad", GeluGrad)}; }

}  // namespace oneflow::cpu
