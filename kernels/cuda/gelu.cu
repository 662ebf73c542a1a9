// gelu(x) = x Phi(x) with the exact normal distribution, and dx = dy (Phi(x) + x phi(x)).
#include "kernels/cuda/half.cuh"

namespace oneflow::cuda {
namespace {

constexpr float kInvSqrt2Pi = 0.39894228040143268f;  // 1 / sqrt(2 pi)

template <typename T>
const char* Gelu(const KernelArgs& args) {
  return MapFloats(
      Stream(args), args.in[0].count, [] __device__(float x) { return x * normcdff(x); }, args.out[0].as<T>(),
      args.in[0].as<const T>());
}

// in: dy, x.
template <typename T>
const char* GeluGrad(const KernelArgs& args) {
  return MapFloats(
      Stream(args), args.in[0].count,
      [] __device__(float dy, float x) { return dy * (normcdff(x) + x * (kInvSqrt2Pi * expf(-0.5f * x * x))); },
      args.out[0].as<T>(), args.in[0].as<const T>(), args.in[1].as<const T>());
}

}  // namespace

KernelList GeluKernels() { return {OF_FLOAT_KERNELS("gelu", Gelu), OF_FLOAT_KERNELS("gelu_grad", GeluGrad)}; }

}  // namespace oneflow::cuda
