// gelu(x) = x Phi(x) with the exact normal distribution, and dx = dy (Phi(x) + x phi(x)).
#include "kernels/cuda/launch.cuh"

namespace oneflow::cuda {
namespace {

constexpr float kInvSqrt2Pi = 0.39894228040143268f;  // 1 / sqrt(2 pi)

const char* Gelu(const KernelArgs& args) {
  return Map(
      Stream(args), args.in[0].count, [] __device__(float x) { return x * normcdff(x); }, args.out[0].as<float>(),
      args.in[0].as<const float>());
}

// in: dy, x.
const char* GeluGrad(const KernelArgs& args) {
  return Map(
      Stream(args), args.in[0].count,
      [] __device__(float dy, float x) { return dy * (normcdff(x) + x * (kInvSqrt2Pi * expf(-0.5f * x * x))); },
      args.out[0].as<float>(), args.in[0].as<const float>(), args.in[1].as<const float>());
}

}  // namespace

KernelList GeluKernels() { return {{"gelu", DType::kFloat32, Gelu}, {"gelu_grad", DType::kFloat32, GeluGrad}}; }

}  // namespace oneflow::cuda
