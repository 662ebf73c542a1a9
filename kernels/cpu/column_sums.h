// Sums of columns over rows. Fixed blocks of rows are summed in the workspace, then the blocks in order, so the bits do
// not depend on the number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/cpu/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

// Bytes of workspace for n sums over rows.
inline size_t ColumnSumsWorkspace(int64_t rows, int64_t n) {
  return static_cast<size_t>(FixedBlocks(rows).count * n) * sizeof(float);
}

// Computes kTotals totals of n sums each. add(begin, end, sums) adds rows [begin, end) to the kTotals * n sums; it
// reads and writes `row_bytes` per row. `workspace` has ColumnSumsWorkspace(rows, kTotals * n) bytes.
template <size_t kTotals, typename Add>
void SumColumns(int64_t rows, int64_t n, int64_t row_bytes, void* workspace, const std::array<float*, kTotals>& totals,
                Add&& add) {
  const FixedBlocks blocks(rows);
  const int64_t all = static_cast<int64_t>(kTotals) * n;
  float* const partial = static_cast<float*>(workspace);
  ParallelFor(blocks.count, Grain(row_bytes * blocks.size), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* const sums = partial + block * all;
      std::fill(sums, sums + all, 0.0f);
      add(blocks.begin(block), blocks.end(block), sums);
    }
  });
  for (size_t which = 0; which < kTotals; ++which) {
    float* const total = totals[which];
    std::fill(total, total + n, 0.0f);
    for (int64_t block = 0; block < blocks.count; ++block) {
      const float* const sums = partial + block * all + static_cast<int64_t>(which) * n;
      for (int64_t i = 0; i < n; ++i) total[i] += sums[i];
    }
  }
}

// sums[n] += the rows of x, in order. Several rows are added at a time, so that sums are loaded and stored once for
// them.
inline constexpr int64_t kRowsAtOnce = 8;
template <typename T>
void AddColumns(const T* x, int64_t rows, int64_t n, float* sums) {
  for (; rows >= kRowsAtOnce; rows -= kRowsAtOnce, x += kRowsAtOnce * n) {
    VecLoop(n, [&](int64_t i, auto lanes) {
      F32s sum = Load(sums + i, lanes);
#pragma GCC unroll 8
      for (int64_t row = 0; row < kRowsAtOnce; ++row) sum += Load(x + row * n + i, lanes);
      Store(sums + i, sum, lanes);
    });
  }
  for (; rows > 0; --rows, x += n) {
    VecLoop(n, [&](int64_t i, auto lanes) { Store(sums + i, Load(sums + i, lanes) + Load(x + i, lanes), lanes); });
  }
}

}  // namespace oneflow::cpu
