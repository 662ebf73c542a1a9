// A bias and a gelu in one pass over rows, and their gradients, for several kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/parallel.h"

namespace oneflow::cpu {

// dx = dy gelu'(x), of n numbers. dx may be dy.
template <typename T>
void GeluGradOfRow(int64_t n, const T* dy, const T* x, T* dx) {
  VecLoop(n, [&](int64_t i, auto lanes) { Store(dx + i, GeluGradOf(Load(dy + i, lanes), Load(x + i, lanes)), lanes); });
}

// h = x + b, and y = gelu(h) of the rounded h, for rows of c numbers. h may be x.
template <typename T>
void AddBiasAndGelu(int64_t rows, int64_t c, const T* x, const float* b, T* h, T* y) {
  ParallelFor(rows, Grain(3 * static_cast<int64_t>(sizeof(T)) * c), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * c; at < end * c; at += c) {
      VecLoop(c, [&](int64_t i, auto lanes) {
        Store(h + at + i, Load(x + at + i, lanes) + Load(b + i, lanes), lanes);
        Store(y + at + i, GeluOf(Load(h + at + i, lanes)), lanes);
      });
    }
  });
}

// d = dy gelu'(h), and db = the sums of d's columns. Rows are added while they are in the first-level cache. d may be
// dy. `workspace`: ColumnSumsWorkspace(rows, c).
template <typename T>
void GeluGradAndSums(int64_t rows, int64_t c, const T* dy, const T* h, T* d, float* db, void* workspace) {
  SumColumns<1>(rows, c, 3 * static_cast<int64_t>(sizeof(T)) * c, workspace, {db},
                [&](int64_t begin, int64_t end, float* sums) {
                  for (int64_t row = begin; row < end; row += kRowsAtOnce) {
                    const int64_t count = std::min(kRowsAtOnce, end - row), at = row * c;
                    GeluGradOfRow(count * c, dy + at, h + at, d + at);
                    AddColumns(d + at, count, c, sums);
                  }
                });
}

}  // namespace oneflow::cpu
