// Loops over boxes of strided operands, with as few dimensions as possible. Dimensions of one element are dropped, and
// neighbours are merged where every operand passes through both with one stride. Standard library only, so that CUDA
// sources may include it.
//
//   [4,5,6] of dense operands               one dimension of 120
//   [4,5,6] + [6]                           20 x 6: the row is repeated (stride 0)
//   rows 2..3 of [4,5,6] to [2,5,6]         one dimension of 60
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace oneflow {

// One dimension of a loop over N operands. Operand i moves by stride[i] elements; 0 repeats it.
template <size_t N>
struct LoopDim {
  int64_t extent = 1;
  std::array<int64_t, N> stride = {};
};

// The merged dimensions, outermost first as the given ones are. Empty if there is one element.
template <size_t N>
std::vector<LoopDim<N>> Merged(std::span<const LoopDim<N>> dims) {
  std::vector<LoopDim<N>> merged;
  for (const LoopDim<N>& dim : dims) {
    if (dim.extent == 1) continue;
    bool continues = !merged.empty();
    for (size_t i = 0; continues && i < N; ++i) continues = merged.back().stride[i] == dim.stride[i] * dim.extent;
    if (continues) {
      merged.back() = {merged.back().extent * dim.extent, dim.stride};
    } else {
      merged.push_back(dim);
    }
  }
  return merged;
}

// The loop of a copy from operand 0 to operand 1. Dimensions are ordered by operand 1's strides, the largest first.
inline std::vector<LoopDim<2>> CopyLoop(std::span<const int64_t> extent, std::span<const int64_t> source_stride,
                                        std::span<const int64_t> target_stride) {
  std::vector<LoopDim<2>> dims;
  for (size_t i = 0; i < extent.size(); ++i) {
    if (extent[i] != 1) dims.push_back({extent[i], {source_stride[i], target_stride[i]}});
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const LoopDim<2>& a, const LoopDim<2>& b) { return a.stride[1] > b.stride[1]; });
  return Merged<2>(dims);
}

// The loop of y = f(x...) with NumPy's broadcasting, over all dimensions of y except the last `without`. Strides of the
// operands are in units of their last `without` dimensions.
template <size_t N>
std::vector<LoopDim<N>> BroadcastLoop(const std::array<const TensorArg*, N>& x, const TensorArg& y, int without = 0) {
  std::vector<LoopDim<N>> dims(y.rank - without);
  std::array<int64_t, N> stride;
  stride.fill(1);
  for (int i = without; i < y.rank; ++i) {
    LoopDim<N>& dim = dims[y.rank - 1 - i];
    dim.extent = y.dims[y.rank - 1 - i];
    for (size_t k = 0; k < N; ++k) {
      const int64_t extent = i < x[k]->rank ? x[k]->dims[x[k]->rank - 1 - i] : 1;
      dim.stride[k] = extent == 1 ? 0 : stride[k];
      stride[k] *= extent;
    }
  }
  return Merged<N>(dims);
}

inline std::vector<LoopDim<2>> BroadcastLoop(const TensorArg& a, const TensorArg& b, const TensorArg& c,
                                             int without = 0) {
  return BroadcastLoop<2>({&a, &b}, c, without);
}

}  // namespace oneflow
