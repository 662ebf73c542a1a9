// How kernels are launched: grid-stride loops over a bounded number of blocks, errors as static strings.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/kernels.h"

namespace oneflow::cuda {

// 256: eight warps hide latency well, and blocks are small enough that several share an SM at 64 registers per thread.
inline constexpr int kThreads = 256;
// 16 blocks for each of the 132 SMs of an H100: full occupancy twice over; what is left is done by the grid-stride
// loop.
inline constexpr int64_t kMaxBlocks = 2112;

// Blocks for `units` pieces of work of which one block takes `per_block` at a time. REQUIRES: units > 0, as launching
// no block is an error.
inline unsigned Blocks(int64_t units, int64_t per_block = kThreads) {
  const int64_t blocks = (units + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

inline cudaStream_t Stream(const KernelArgs& args) { return static_cast<cudaStream_t>(args.stream); }

// Null, or what the code means: a string that lives as long as the library.
inline const char* ErrorText(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }
// Of the launch just made.
inline const char* LaunchError() { return ErrorText(cudaGetLastError()); }

inline const char* SetZero(cudaStream_t stream, void* target, size_t num_bytes) {
  return num_bytes == 0 ? nullptr : ErrorText(cudaMemsetAsync(target, 0, num_bytes, stream));
}

// Position and step of a grid-stride loop.
__device__ inline int64_t FirstIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t IndexStride() { return int64_t{gridDim.x} * blockDim.x; }

// f(i) for all i in [0, n).
template <typename F>
__global__ void ForEachKernel(int64_t n, F f) {
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) f(i);
}
template <typename F>
const char* ForEach(cudaStream_t stream, int64_t n, F f) {
  if (n == 0) return nullptr;
  ForEachKernel<<<Blocks(n), kThreads, 0, stream>>>(n, f);
  return LaunchError();
}

template <typename F, typename... V>
__device__ float4 MapVector(F f, V... v) {
  return make_float4(f(v.x...), f(v.y...), f(v.z...), f(v.w...));
}

// y[i] = f(x[i]...) for floats, four at a time; `y` may be one of the inputs.
template <typename F, typename... X>
__global__ void MapKernel(F f, int64_t n, float* y, X... x) {
  const int64_t first = FirstIndex();
  for (int64_t i = first; i < n / 4; i += IndexStride()) {
    reinterpret_cast<float4*>(y)[i] = MapVector(f, reinterpret_cast<const float4*>(x)[i]...);
  }
  if (const int64_t i = n / 4 * 4 + first; i < n) y[i] = f(x[i]...);
}
template <typename F, typename... X>
const char* Map(cudaStream_t stream, int64_t n, F f, float* y, X... x) {
  if (n == 0) return nullptr;
  MapKernel<<<Blocks(n, 4 * kThreads), kThreads, 0, stream>>>(f, n, y, x...);
  return LaunchError();
}

}  // namespace oneflow::cuda
