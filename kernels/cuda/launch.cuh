// Launches of kernels: Launch() launches all of them. Kernels are grid-stride loops over a bounded number of blocks.
// Errors are static strings.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "kernels/cuda/kernels.h"

namespace oneflow::cuda {

// 256: eight warps hide latency well, and blocks are small enough that several share an SM at 64 registers per thread.
inline constexpr int kThreads = 256;
// 16 blocks for each of the 132 SMs of an H100: full occupancy twice over. The grid-stride loop does the rest.
inline constexpr int64_t kMaxBlocks = 2112;

// The number of blocks for `units` pieces of work, `per_block` of them per block. REQUIRES: units > 0, because a launch
// of no block is an error.
inline unsigned Blocks(int64_t units, int64_t per_block = kThreads) {
  const int64_t blocks = (units + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

inline cudaStream_t Stream(const KernelArgs& args) { return static_cast<cudaStream_t>(args.stream); }

// Null, or the meaning of the code: a string that lives as long as the library.
inline const char* ErrorText(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }

// A grid of `blocks` blocks of kThreads threads with `shared_bytes` of dynamic shared memory each.
struct Grid {
  cudaStream_t stream;
  unsigned blocks;
  size_t shared_bytes = 0;
};

// Launches kernel(args...) and returns at once; arguments are converted to the types of the parameters. The kernel runs
// after the work before it in the stream. Null, or ErrorText(): the launch was refused (no block, too much shared
// memory, no code for the device), or an earlier kernel failed, which every call reports from then on. A failure of
// this kernel is reported by a later call.
template <typename... P, typename... A>
const char* Launch(const Grid& grid, void (*kernel)(P...), A&&... args) {
  const cudaLaunchConfig_t config = {.gridDim = grid.blocks,
                                     .blockDim = kThreads,
                                     .dynamicSmemBytes = grid.shared_bytes,
                                     .stream = grid.stream,
                                     .attrs = nullptr,
                                     .numAttrs = 0};
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, std::forward<A>(args)...);
  if (error != cudaSuccess) cudaGetLastError();  // reported here, so it must not appear as an error of a later call
  return ErrorText(error);
}

// The block's dynamic shared memory, Grid::shared_bytes, aligned to 16 bytes.
extern __shared__ float4 dynamic_shared_memory[];

// Allows kKernel `num_bytes` of dynamic shared memory on the current device; needed above 48 KiB. Null, or what is
// wrong: the device has less. From any thread. CUDA is asked once per kernel and device. REQUIRES: `num_bytes` is the
// same in all calls for a kernel.
template <auto kKernel>
const char* AllowSharedMemory(size_t num_bytes) {
  static std::atomic<uint64_t> allowed = 0;  // a bit for each device
  int device = 0;
  if (const char* error = ErrorText(cudaGetDevice(&device))) return error;
  const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;  // without a bit of its own a device is asked each time
  if ((allowed.load(std::memory_order_acquire) & bit) != 0) return nullptr;
  if (const char* error = ErrorText(
          cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(num_bytes)))) {
    return error;
  }
  allowed.fetch_or(bit, std::memory_order_release);
  return nullptr;
}

inline const char* SetZero(cudaStream_t stream, void* target, size_t num_bytes) {
  return num_bytes == 0 ? nullptr : ErrorText(cudaMemsetAsync(target, 0, num_bytes, stream));
}

// Position and step of a grid-stride loop. A thread mostly makes one step, so loops have `unroll 1`: to unroll, the
// compiler would compute the number of steps by a 64-bit division.
__device__ inline int64_t FirstIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t IndexStride() { return int64_t{gridDim.x} * blockDim.x; }

// f(i) for all i in [0, n).
template <typename F>
__global__ void ForEachKernel(int64_t n, F f) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) f(i);
}
template <typename F>
const char* ForEach(cudaStream_t stream, int64_t n, F f) {
  if (n == 0) return nullptr;
  return Launch({stream, Blocks(n)}, ForEachKernel<F>, n, f);
}

template <typename F, typename... V>
__device__ float4 MapVector(F f, V... v) {
  return make_float4(f(v.x...), f(v.y...), f(v.z...), f(v.w...));
}

// How many times four of `n` elements can be read and written at once: none where an operand begins between four, as a
// group of ragged rows may.
template <typename... T>
int64_t Fours(int64_t n, const T*... x) {
  const bool aligned = ((reinterpret_cast<uintptr_t>(x) % (4 * sizeof(T)) == 0) && ...);
  return aligned ? n / 4 : 0;
}

// y[i] = f(x[i]...) for floats, the first `fours` times four at once; `y` may be one of the inputs.
template <typename F, typename... X>
__global__ void MapKernel(F f, int64_t n, int64_t fours, float* y, X... x) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < fours; i += IndexStride()) {
    reinterpret_cast<float4*>(y)[i] = MapVector(f, reinterpret_cast<const float4*>(x)[i]...);
  }
#pragma unroll 1
  for (int64_t i = 4 * fours + FirstIndex(); i < n; i += IndexStride()) y[i] = f(x[i]...);
}
template <typename F, typename... X>
const char* Map(cudaStream_t stream, int64_t n, F f, float* y, X... x) {
  if (n == 0) return nullptr;
  return Launch({stream, Blocks(n, 4 * kThreads)}, MapKernel<F, X...>, f, n, Fours(n, y, x...), y, x...);
}

}  // namespace oneflow::cuda
