// Loops that give their bodies the place of an element: its index in each dimension of a tensor, or its offsets in
// strided operands (kernels/loops.h). They avoid divisions and use 32-bit indices where possible.
#pragma once

#include <vector>

#include "kernels/cuda/division.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/loops.h"

namespace oneflow::cuda {

// The extents of a tensor except the first.
template <typename Index, size_t kRank>
struct Extents {
  explicit Extents(const int64_t (&dims)[kRank]) {
    for (size_t i = 1; i < kRank; ++i) inner[i - 1] = Divisor<Index>(dims[i]);
  }
  Divisor<Index> inner[kRank - 1];
};

template <typename Index, size_t kRank, typename F>
__global__ void ForEachPlaceKernel(int64_t n, Extents<Index, kRank> extents, F f) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) {
    const auto [rest, last] = extents.inner[kRank - 2].Divide(static_cast<Index>(i));
    if constexpr (kRank == 2) {
      f(i, rest, last);
    } else {
      const auto [first, middle] = extents.inner[0].Divide(rest);
      f(i, first, middle, last);
    }
  }
}

// f(i, its index in each dimension) for all elements i of a tensor of these two or three dimensions.
template <size_t kRank, typename F>
const char* ForEach(cudaStream_t stream, const int64_t (&dims)[kRank], F f) {
  static_assert(kRank == 2 || kRank == 3);
  int64_t n = 1;
  for (const int64_t extent : dims) n *= extent;
  if (n == 0) return nullptr;
  return WithIndex(n, [&](auto index) {
    using Index = decltype(index);
    return Launch({stream, Blocks(n)}, ForEachPlaceKernel<Index, kRank, F>, n, Extents<Index, kRank>(dims), f);
  });
}

// Where an element lies in each of N operands.
template <size_t N>
struct Offsets {
  int64_t of[N];
};

// A loop's dimensions, outermost first, as a parameter of a kernel. REQUIRES: at most kMaxRank dimensions.
template <typename Index, size_t N>
struct StridedLoop {
  explicit StridedLoop(const std::vector<LoopDim<N>>& dims) : rank(static_cast<int>(dims.size())) {
    for (int d = 0; d < rank; ++d) {
      extent[d] = Divisor<Index>(dims[d].extent);
      for (size_t k = 0; k < N; ++k) stride[d][k] = dims[d].stride[k];
    }
  }
  // The offsets of element `index` of the loop.
  __device__ Offsets<N> At(Index index) const {
    Offsets<N> offsets = {};
    for (int d = rank - 1; d > 0; --d) {
      const auto [rest, at] = extent[d].Divide(index);
      for (size_t k = 0; k < N; ++k) offsets.of[k] += static_cast<int64_t>(at) * stride[d][k];
      index = rest;
    }
    for (size_t k = 0; k < N; ++k) offsets.of[k] += static_cast<int64_t>(index) * stride[0][k];
    return offsets;
  }

  int rank;
  Divisor<Index> extent[kMaxRank];
  int64_t stride[kMaxRank][N] = {};
};

template <typename Index, size_t N, typename F>
__global__ void ForEachOffsetKernel(int64_t n, StridedLoop<Index, N> loop, F f) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) f(i, loop.At(static_cast<Index>(i)));
}

template <size_t N>
int64_t Count(const std::vector<LoopDim<N>>& dims) {
  int64_t count = 1;
  for (const LoopDim<N>& dim : dims) count *= dim.extent;
  return count;
}

// f(i, the offsets of element i) for all elements of a loop. REQUIRES: it has at most kMaxRank dimensions.
template <size_t N, typename F>
const char* ForEach(cudaStream_t stream, const std::vector<LoopDim<N>>& dims, F f) {
  const int64_t n = Count(dims);
  if (n == 0) return nullptr;
  return WithIndex(n, [&](auto index) {
    using Index = decltype(index);
    return Launch({stream, Blocks(n)}, ForEachOffsetKernel<Index, N, F>, n, StridedLoop<Index, N>(dims), f);
  });
}

}  // namespace oneflow::cuda
