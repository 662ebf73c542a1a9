// Elementwise functions of one tensor, and relu_grad, which selects by a second one. Outputs may lie in the inputs'
// memory.
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// y[i] = f(x[i]) for all elements; f takes and returns sixteen of them, and is a lambda of its own type, so that it is
// inlined.
template <typename F>
const char* Map(const KernelArgs& args, F f) {
  const float* const x = args.in[0].as<const float>();
  float* const y = args.out[0].as<float>();
  ParallelFor(args.in[0].count, Grain(2 * sizeof(float)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) { Store(y + begin + i, f(Load(x + begin + i, lanes)), lanes); });
  });
  return nullptr;
}

const char* Scale(const KernelArgs& args) {
  const F32x16 alpha = Splat(static_cast<float>(args.attrs->Double("alpha", 1)));
  return Map(args, [=](F32x16 x) OF_INLINED { return alpha * x; });
}
const char* AddScalar(const KernelArgs& args) {
  const F32x16 alpha = Splat(static_cast<float>(args.attrs->Double("alpha")));
  return Map(args, [=](F32x16 x) OF_INLINED { return x + alpha; });
}
const char* Neg(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED { return -x; });
}
const char* ExpKernel(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED { return Exp(x); });
}
const char* Log(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED {  // rare in models: the library's scalar function is good enough
    for (int i = 0; i < kLanes; ++i) x[i] = std::log(x[i]);
    return x;
  });
}
const char* SqrtKernel(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED { return Sqrt(x); });
}
const char* Rsqrt(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED { return 1.0f / Sqrt(x); });
}
const char* Square(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED { return x * x; });
}
const char* TanhKernel(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED { return Tanh(x); });
}
const char* Sigmoid(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED { return 1.0f / (1.0f + Exp(-x)); });
}
// Written so that NaN stays NaN: it is not < 0.
const char* Relu(const KernelArgs& args) {
  return Map(args, [](F32x16 x) OF_INLINED { return x < 0.0f ? Splat(0) : x; });
}

// dx = y <= 0 ? 0 : dy, so that dy passes where y is NaN; in: dy, y.
const char* ReluGrad(const KernelArgs& args) {
  const float* const dy = args.in[0].as<const float>();
  const float* const y = args.in[1].as<const float>();
  float* const dx = args.out[0].as<float>();
  ParallelFor(args.in[0].count, Grain(3 * sizeof(float)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      i += begin;
      Store(dx + i, Load(y + i, lanes) <= 0.0f ? Splat(0) : Load(dy + i, lanes), lanes);
    });
  });
  return nullptr;
}

}  // namespace

KernelList UnaryKernels() {
  constexpr DType kF32 = DType::kFloat32;
  return {{"scale", kF32, Scale},     {"add_scalar", kF32, AddScalar},
          {"neg", kF32, Neg},         {"exp", kF32, ExpKernel},
          {"log", kF32, Log},         {"sqrt", kF32, SqrtKernel},
          {"rsqrt", kF32, Rsqrt},     {"square", kF32, Square},
          {"tanh", kF32, TanhKernel}, {"relu", kF32, Relu},
          {"sigmoid", kF32, Sigmoid}, {"relu_grad", kF32, ReluGrad}};
}

}  // namespace oneflow::cpu
