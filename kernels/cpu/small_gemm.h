// Products of small matrices that live in the first two caches, for kernels that fuse them with other work on one core:
// tiles of 8 rows by 32 columns stay in registers, b's rows are read as vectors, a's elements are broadcast.
//
// Per step of k a tile takes 16 multiply-adds (8 cycles) and 10 loads (5 cycles), so arithmetic is the bound.
#pragma once

#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

// One operand that may be read along either dimension: element (row, column) is at data[row * row_stride + column *
// column_stride].
struct Strided {
  const float* data;
  int64_t row_stride, column_stride;
};

// kRows x (kVectors * 16) elements of c, of which the last vector stores `lanes`.
template <int kRows, int kVectors, bool kAccumulate, typename Lanes>
OF_INLINE void GemmTile(int64_t k, const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t ldb, float* c,
                        int64_t ldc, Lanes lanes) {
  F32x16 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) sum[i][j] = F32x16{};
  }
  for (int64_t p = 0; p < k; ++p) {
    F32x16 row[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j + 1 < kVectors; ++j) row[j] = Load(b + p * ldb + j * kLanes);
    row[kVectors - 1] = Load(b + p * ldb + (kVectors - 1) * kLanes, lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const F32x16 x = Splat(a[i * a_row + p * a_k]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    float* const to = c + i * ldc;
#pragma GCC unroll 2
    for (int j = 0; j + 1 < kVectors; ++j) {
      Store(to + j * kLanes, kAccumulate ? sum[i][j] + Load(to + j * kLanes) : sum[i][j]);
    }
    float* const last = to + (kVectors - 1) * kLanes;
    Store(last, kAccumulate ? sum[i][kVectors - 1] + Load(last, lanes) : sum[i][kVectors - 1], lanes);
  }
}

template <int kVectors, bool kAccumulate, typename Lanes>
inline void GemmColumns(int64_t m, int64_t k, Strided a, const float* b, int64_t ldb, float* c, int64_t ldc,
                        Lanes lanes) {
  int64_t i = 0;
  const auto tile = [&]<int kRows>() {
    GemmTile<kRows, kVectors, kAccumulate>(k, a.data + i * a.row_stride, a.row_stride, a.column_stride, b, ldb,
                                           c + i * ldc, ldc, lanes);
    i += kRows;
  };
  while (i + 8 <= m) tile.template operator()<8>();
  if (i + 4 <= m) tile.template operator()<4>();
  if (i + 2 <= m) tile.template operator()<2>();
  if (i < m) tile.template operator()<1>();
}

// c[m,n] = a[m,k] b[k,n], or c += a b. b and c have rows of stride ldb, ldc with unit steps.
template <bool kAccumulate>
inline void SmallGemm(int64_t m, int64_t n, int64_t k, Strided a, const float* b, int64_t ldb, float* c, int64_t ldc) {
  int64_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) GemmColumns<2, kAccumulate>(m, k, a, b + j, ldb, c + j, ldc, AllLanes{});
  if (n - j == kLanes) {
    GemmColumns<1, kAccumulate>(m, k, a, b + j, ldb, c + j, ldc, AllLanes{});
  } else if (n - j > kLanes) {
    GemmColumns<2, kAccumulate>(m, k, a, b + j, ldb, c + j, ldc, SomeLanes{static_cast<int>(n - j - kLanes)});
  } else if (n > j) {
    GemmColumns<1, kAccumulate>(m, k, a, b + j, ldb, c + j, ldc, SomeLanes{static_cast<int>(n - j)});
  }
}

}  // namespace oneflow::cpu
