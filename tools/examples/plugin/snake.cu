// The kernels of snake.cc for GPUs.
#include "snake_on_cuda.h"

namespace waves {
namespace {

__global__ void SnakeKernel(int64_t n, float a, const float* x, float* y) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + sinf(a * x[i]) * sinf(a * x[i]) / a;
}

__global__ void SnakeGradKernel(int64_t n, float a, const float* dy, const float* x, float* dx) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) dx[i] = dy[i] * (1 + sinf(2 * a * x[i]));
}

constexpr int kThreads = 256;

template <typename Kernel, typename... Arguments>
const char* Launch(const oneflow::KernelArgs& args, Kernel kernel, const Arguments*... in) {
  const int64_t n = args.out[0].count;
  if (n == 0) return nullptr;
  const auto a = static_cast<float>(args.attrs->Double("a"));
  kernel<<<(n + kThreads - 1) / kThreads, kThreads, 0, static_cast<cudaStream_t>(args.stream)>>>(
      n, a, in..., args.out[0].as<float>());
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char* SnakeOnCuda(const oneflow::KernelArgs& args) {
  return Launch(args, SnakeKernel, args.in[0].as<const float>());
}

const char* SnakeGradOnCuda(const oneflow::KernelArgs& args) {
  return Launch(args, SnakeGradKernel, args.in[0].as<const float>(), args.in[1].as<const float>());
}

}  // namespace waves
