// Sums over the rows of [rows, c] for all columns, of several terms at once, as the gradients of biases and of a
// normalisation's parameters need. Rows are cut into splits, which are added in a fixed order, so that the result does
// not depend on timing.
//
//   ColumnSums<1, T>(stream, rows, c, {x}, terms, workspace, {sum})
//   terms.operator()<kLanes>(row, column, i, out)     out[sum][lane]: what elements i, i + 1, ... add
#pragma once

#include <algorithm>

#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {

template <int kSums>
struct SumPointers {
  float* sum[kSums];
};

inline constexpr int kLines = kThreads / kWarp;  // rows that a block reads at a time, 32 packs of each

// Sums of a split of `rows_of_split` rows, for each of `strips` of 32 packs of columns: partial[split][sum][c].
template <int kSums, int kLanes, typename F>
__global__ void ColumnSumsKernel(int64_t rows, int64_t c, int64_t tasks, int64_t rows_of_split,
                                 Divisor<uint64_t> strips, F terms, float* partial) {
  constexpr int kStrip = kWarp * kLanes;
  __shared__ float sums[kSums][kLines][kStrip];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const auto [split, strip] = strips.Divide(task);
    const int64_t first = strip * kStrip, column = first + lane * kLanes, begin = split * rows_of_split;
    const int64_t end = begin + rows_of_split < rows ? begin + rows_of_split : rows;
    float total[kSums][kLanes] = {};
    for (int64_t row = begin + line; row < end && column < c; row += kLines) {
      float one[kSums][kLanes];
      terms.template operator()<kLanes>(row, column, row * c + column, one);
      for (int i = 0; i < kSums; ++i) {
        for (int k = 0; k < kLanes; ++k) total[i][k] += one[i][k];
      }
    }
    __syncthreads();  // the last task's sums are read
    for (int i = 0; i < kSums; ++i) {
      for (int k = 0; k < kLanes; ++k) sums[i][line][lane * kLanes + k] = total[i][k];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < kSums * kStrip; at += kThreads) {
      const int i = at / kStrip, of_strip = at % kStrip;
      if (first + of_strip >= c) continue;
      float sum = 0;
      for (int other = 0; other < kLines; ++other) sum += sums[i][other][of_strip];
      partial[(split * kSums + i) * c + first + of_strip] = sum;
    }
  }
}

// The sums of all splits. A block takes 32 columns of a sum, each line of threads every eighth split.
template <int kSums>
__global__ void JoinColumnSumsKernel(int64_t c, int64_t splits, int64_t strips, const float* partial,
                                     SumPointers<kSums> result) {
  __shared__ float sums[kLines][kWarp];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (int64_t task = blockIdx.x; task < kSums * strips; task += gridDim.x) {
    const int64_t i = task / strips, column = task % strips * kWarp + lane;
    float total = 0;
#pragma unroll 4
    for (int64_t split = line; split < splits; split += kLines) {
      if (column < c) total += partial[(split * kSums + i) * c + column];
    }
    __syncthreads();  // the last task's sums are read
    sums[line][lane] = total;
    __syncthreads();
    if (line != 0 || column >= c) continue;
    for (int other = 1; other < kLines; ++other) total += sums[other][lane];
    result.sum[i][column] = total;
  }
}

// Splits have at least 64 rows, and are few enough for the second pass.
inline int64_t RowSplits(int64_t rows) { return std::max<int64_t>(1, std::min<int64_t>(128, rows / 64)); }

template <int kSums>
size_t ColumnSumsBytes(int64_t rows, int64_t c) {
  return static_cast<size_t>(RowSplits(rows) * kSums * c) * sizeof(float);
}

template <int kSums, int kLanes, typename F>
const char* LaunchColumnSums(cudaStream_t stream, int64_t rows, int64_t c, F terms, float* partial) {
  const int64_t splits = RowSplits(rows), strips = (c + kWarp * kLanes - 1) / (kWarp * kLanes);
  return Launch({stream, Blocks(strips * splits, 1)}, ColumnSumsKernel<kSums, kLanes, F>, rows, c, strips * splits,
                (rows + splits - 1) / splits, Divisor<uint64_t>(strips), terms, partial);
}

// `operands`: what `terms` reads and writes, rows of elements of type T and of floats. `workspace` has
// ColumnSumsBytes<kSums>(rows, c). REQUIRES: c > 0.
template <int kSums, typename T, typename F>
const char* ColumnSums(cudaStream_t stream, int64_t rows, int64_t c, std::initializer_list<const void*> operands,
                       F terms, void* workspace, SumPointers<kSums> result) {
  float* const partial = static_cast<float*>(workspace);
  const char* const error = CanPack<kPackLanes<T>>(c, operands)
                                ? LaunchColumnSums<kSums, kPackLanes<T>>(stream, rows, c, terms, partial)
                                : LaunchColumnSums<kSums, 1>(stream, rows, c, terms, partial);
  if (error != nullptr) return error;
  const int64_t strips = (c + kWarp - 1) / kWarp;
  return Launch({stream, Blocks(kSums * strips, 1)}, JoinColumnSumsKernel<kSums>, c, RowSplits(rows), strips, partial,
                result);
}

}  // namespace oneflow::cuda
