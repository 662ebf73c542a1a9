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
      const F32s v = Load(x + i, lanes);
      const F32s density = kInvSqrt2Pi * Exp(-0.5f * v * v);
      Store(dx + i, Load(dy + i, lanes) * (Phi(v) + v * density), lanes);
    });
  });
  return nullptr;
}

}  // namespace

KernelList GeluKernels() { return {OF_FLOAT_KERNELS("gelu", Gelu), OF_FLOAT_KERNELS("gelu_grad", GeluGrad)}; }

}  // namespace oneflow::cpu
