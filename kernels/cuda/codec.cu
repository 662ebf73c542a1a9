// What edges with a policy compute: addends as rows, and orthonormal columns.
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

// A rank with one row has its own addend there; one with all rows has the whole sum in the first.
const char* Addends(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  if (y.count == 0) return nullptr;
  const size_t own = static_cast<size_t>(x.count) * sizeof(float);
  if (own > 0) {
    const cudaError_t error = cudaMemcpyAsync(y.data, x.data, own, cudaMemcpyDeviceToDevice, Stream(args));
    if (error != cudaSuccess) return ErrorText(error);
  }
  return SetZero(Stream(args), y.as<float>() + x.count, static_cast<size_t>(y.count - x.count) * sizeof(float));
}

// The product of columns i and j, of all threads.
__device__ float ProductOf(const float* q, int64_t n, int64_t r, int64_t i, int64_t j) {
  FloatPair sum = {};
  for (int64_t row = threadIdx.x; row < n; row += kThreads) sum.Add(q[row * r + i] * q[row * r + j]);
  return Reduce<kThreads>(sum, SumOf()).Rounded();
}

// One sweep of Gram-Schmidt by one block, as on the CPU. `before`: squared lengths of the columns, or null for ones.
__device__ void Sweep(float* q, int64_t n, int64_t r, const float* before, float least) {
  for (int64_t i = 0; i < r; ++i) {
    const float square = ProductOf(q, n, r, i, i);
    const bool depends = !(square > least * (before == nullptr ? 1.0f : before[i]));
    const float inverse = depends ? 0.0f : 1.0f / sqrtf(square);
    for (int64_t row = threadIdx.x; row < n; row += kThreads) q[row * r + i] *= inverse;
    for (int64_t j = i + 1; j < r; ++j) {
      const float product = ProductOf(q, n, r, i, j);
      for (int64_t row = threadIdx.x; row < n; row += kThreads) q[row * r + j] -= product * q[row * r + i];
    }
  }
}

__global__ void OrthonormalizeKernel(const float* x, float* q, float* squares, int64_t n, int64_t r) {
  for (int64_t i = threadIdx.x; i < n * r; i += kThreads) q[i] = x[i];
  __syncthreads();
  for (int64_t i = 0; i < r; ++i) {
    const float square = ProductOf(q, n, r, i, i);
    if (threadIdx.x == 0) squares[i] = square;
  }
  __syncthreads();
  Sweep(q, n, r, squares, 1e-12f);
  Sweep(q, n, r, nullptr, 0.25f);
}

size_t BytesOfSquares(const KernelArgs& args) { return static_cast<size_t>(args.in[0].dims[1]) * sizeof(float); }

const char* Orthonormalize(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  return Launch({Stream(args), 1}, OrthonormalizeKernel, x.as<const float>(), args.out[0].as<float>(),
                static_cast<float*>(args.workspace), x.dims[0], x.dims[1]);
}

}  // namespace

KernelList CodecKernels() {
  return {{"addends", DType::kFloat32, Addends}, {"orthonormalize", DType::kFloat32, Orthonormalize, BytesOfSquares}};
}

}  // namespace oneflow::cuda
