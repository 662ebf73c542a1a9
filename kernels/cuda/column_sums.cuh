// Sums over the rows of [rows, c] for all columns, of several terms at once, as the gradients of a normalisation's
// parameters need. Rows are cut into splits, which are added in order, so that the result does not depend on timing.
//
//   ColumnSums<1>(stream, rows, c, [=] __device__(int64_t row, int64_t column) { return Terms<1>{...}; },
//                 workspace, {sum})
#pragma once

#include <algorithm>

#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {

// The terms that one element adds to the sums.
template <int kSums>
struct Terms {
  float term[kSums];
};

template <int kSums>
struct SumPointers {
  float* sum[kSums];
};

inline constexpr int kLines = kThreads / kWarp;  // rows that a block reads at a time, 32 columns of each

// Sums of a split of `rows_of_split` rows, for each of `strips` of 32 columns: partial[split][sum][c].
template <int kSums, typename F>
__global__ void ColumnSumsKernel(int64_t rows, int64_t c, int64_t tasks, int64_t rows_of_split,
                                 Divisor<uint64_t> strips, F terms, float* partial) {
  static_assert(kSums <= kLines, "a line of threads adds up each sum");
  __shared__ float sums[kSums][kLines][kWarp];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const auto [split, strip] = strips.Divide(task);
    const int64_t column = strip * kWarp + lane, begin = split * rows_of_split;
    const int64_t end = begin + rows_of_split < rows ? begin + rows_of_split : rows;
    Terms<kSums> total = {};
    for (int64_t row = begin + line; row < end && column < c; row += kLines) {
      const Terms<kSums> one = terms(row, column);
      for (int i = 0; i < kSums; ++i) total.term[i] += one.term[i];
    }
    __syncthreads();  // the last task's sums are read
    for (int i = 0; i < kSums; ++i) sums[i][line][lane] = total.term[i];
    __syncthreads();
    if (line < kSums && column < c) {
      float sum = 0;
      for (int i = 0; i < kLines; ++i) sum += sums[line][i][lane];
      partial[(split * kSums + line) * c + column] = sum;
    }
  }
}

// Splits have at least 64 rows, and are few enough for the second pass.
inline int64_t RowSplits(int64_t rows) { return std::max<int64_t>(1, std::min<int64_t>(128, rows / 64)); }

template <int kSums>
size_t ColumnSumsBytes(int64_t rows, int64_t c) {
  return static_cast<size_t>(RowSplits(rows) * kSums * c) * sizeof(float);
}

// `workspace` has ColumnSumsBytes<kSums>(rows, c). REQUIRES: c > 0.
template <int kSums, typename F>
const char* ColumnSums(cudaStream_t stream, int64_t rows, int64_t c, F terms, void* workspace,
                       SumPointers<kSums> result) {
  const int64_t splits = RowSplits(rows), strips = (c + kWarp - 1) / kWarp, tasks = strips * splits;
  float* const partial = static_cast<float*>(workspace);
  if (const char* error = Launch({stream, Blocks(tasks, 1)}, ColumnSumsKernel<kSums, F>, rows, c, tasks,
                                 (rows + splits - 1) / splits, Divisor<uint64_t>(strips), terms, partial)) {
    return error;
  }
  return ForEach(stream, {kSums, c}, [=] __device__(int64_t i, int64_t sum, int64_t column) {
    float total = 0;
    for (int64_t split = 0; split < splits; ++split) total += partial[split * kSums * c + i];
    result.sum[sum][column] = total;
  });
}

}  // namespace oneflow::cuda
