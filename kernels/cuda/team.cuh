// A team of threads that share a row: a warp for short rows, a block for long ones. A reduction gives every member the
// same bits; its order depends on the team's size only.
#pragma once

#include "kernels/cuda/float_pair.cuh"
#include "kernels/cuda/launch.cuh"

namespace oneflow::cuda {

inline constexpr int kWarp = 32;
// Columns up to which a warp takes a row: 32 elements per lane.
inline constexpr int64_t kWarpColumns = 1024;

struct SumOf {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct MaxOf {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// The value of the lane whose number differs from this one's in these bits.
template <typename T>
__device__ T FromLane(T value, int bits) {
  return __shfl_xor_sync(0xffffffffu, value, bits);
}
__device__ inline FloatPair FromLane(FloatPair value, int bits) {
  return {FromLane(value.high, bits), FromLane(value.low, bits)};
}

// REQUIRES: kTeam is 32 or the size of the block, and all its threads call.
template <int kTeam, typename Op, typename T>
__device__ T Reduce(T value, Op op) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = op(value, FromLane(value, distance));
  }
  if constexpr (kTeam > kWarp) {
    __shared__ T parts[kTeam / kWarp];
    __syncthreads();  // the last use of `parts` is over
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < kTeam / kWarp; ++i) value = op(value, parts[i]);
  }
  return value;
}

// A team's first row, the distance to its next row, and this thread's number in the team.
template <int kTeam>
struct Team {
  static_assert(kThreads % kTeam == 0);
  __device__ int64_t first() const { return (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kTeam; }
  __device__ int64_t stride() const { return int64_t{gridDim.x} * (kThreads / kTeam); }
  __device__ int member() const { return threadIdx.x % kTeam; }
};

// Launches kernel(rows, c, p...) with the teams that rows of c columns deserve: `warps` for rows of up to `most`
// columns, else `blocks`, which are one kernel for both. Null where there are no rows.
template <int64_t most = kWarpColumns, typename... P, typename... A>
const char* LaunchRows(const KernelArgs& args, int64_t rows, int64_t c, void (*warps)(int64_t, int64_t, P...),
                       void (*blocks)(int64_t, int64_t, P...), A&&... p) {
  if (rows == 0) return nullptr;
  if (c <= most) return Launch({Stream(args), Blocks(rows, kThreads / kWarp)}, warps, rows, c, p...);
  return Launch({Stream(args), Blocks(rows, 1)}, blocks, rows, c, p...);
}

}  // namespace oneflow::cuda
