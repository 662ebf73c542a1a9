// Elementwise functions of one tensor, and relu_grad, which selects by a second one. Outputs may lie in the inputs'
// memory.
#include "kernels/cuda/launch.cuh"

namespace oneflow::cuda {
namespace {

template <typename F>
const char* MapOne(const KernelArgs& args, F f) {
  return Map(Stream(args), args.in[0].count, f, args.out[0].as<float>(), args.in[0].as<const float>());
}

const char* Scale(const KernelArgs& args) {
  const float alpha = static_cast<float>(args.attrs->Double("alpha", 1));
  return MapOne(args, [alpha] __device__(float x) { return alpha * x; });
}
const char* AddScalar(const KernelArgs& args) {
  const float alpha = static_cast<float>(args.attrs->Double("alpha"));
  return MapOne(args, [alpha] __device__(float x) { return x + alpha; });
}
const char* Neg(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return -x; });
}
const char* Exp(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return expf(x); });
}
const char* Log(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return logf(x); });
}
const char* Sqrt(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return sqrtf(x); });
}
const char* Rsqrt(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return 1.0f / sqrtf(x); });
}
const char* Square(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return x * x; });
}
const char* Tanh(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return tanhf(x); });
}
const char* Sigmoid(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return 1.0f / (1.0f + expf(-x)); });
}
// Written so that NaN stays NaN: it is not < 0.
const char* Relu(const KernelArgs& args) {
  return MapOne(args, [] __device__(float x) { return x < 0.0f ? 0.0f : x; });
}

// dx = y <= 0 ? 0 : dy, so that dy passes where y is NaN; in: dy, y.
const char* ReluGrad(const KernelArgs& args) {
  return Map(
      Stream(args), args.in[0].count, [] __device__(float dy, float y) { return y <= 0.0f ? 0.0f : dy; },
      args.out[0].as<float>(), args.in[0].as<const float>(), args.in[1].as<const float>());
}

}  // namespace

KernelList UnaryKernels() {
  constexpr DType kF32 = DType::kFloat32;
  return {{"scale", kF32, Scale},     {"add_scalar", kF32, AddScalar},
          {"neg", kF32, Neg},         {"exp", kF32, Exp},
          {"log", kF32, Log},         {"sqrt", kF32, Sqrt},
          {"rsqrt", kF32, Rsqrt},     {"square", kF32, Square},
          {"tanh", kF32, Tanh},       {"relu", kF32, Relu},
          {"sigmoid", kF32, Sigmoid}, {"relu_grad", kF32, ReluGrad}};
}

}  // namespace oneflow::cuda
