// Products of small matrices in the first two levels of cache, for kernels that fuse them with other work on one core.
// A tile has 8 rows by two registers of sums (6 rows on processors with 16 registers). Rows of b are read as vectors,
// elements of a are broadcast.
//
// With AVX-512 a tile takes 16 multiply-adds (8 cycles) and 10 loads (5 cycles) per step of k, so arithmetic is the
// bound. On processors with dot products of pairs of bf16, a step may take two of k: each 32-bit element is then a pair
// of neighbours along k, the first in the lower half. Such products flush numbers below 2^-126.
#pragma once

#include <algorithm>

#include "kernels/cpu/tile.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

// Whether kernels multiply by pairs. Processors with tiles do not: on Intel's a product of pairs takes four times as
// long as one of floats.
#if defined(__AVX512BF16__) && ONEFLOW_TILES == 0
inline constexpr bool kMultipliesPairs = true;
#else
inline constexpr bool kMultipliesPairs = false;
#endif

// The steps for k numbers.
template <bool kPairs>
OF_INLINE int64_t Steps(int64_t k) {
  return kPairs ? (k + 1) / 2 : k;
}

template <bool kPairs>
OF_INLINE F32s Broadcast(const float* x) {
  if constexpr (kPairs) {
    return (F32s)(U32s{} + *reinterpret_cast<const U32Unaligned*>(x));
  } else {
    return Splat(*x);
  }
}

template <bool kPairs>
OF_INLINE F32s MultiplyAdd(F32s x, F32s y, F32s sum) {
#ifdef __AVX512BF16__
  if constexpr (kPairs) return (F32s)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)y);
#endif
  static_assert(!kPairs || kMultipliesPairs);
  return sum + x * y;
}

// An operand with a stride for each dimension: element (row, column) is at data[row * row_stride + column *
// column_stride].
struct Strided {
  const float* data;
  int64_t row_stride, column_stride;
};

// The part of a product that is skipped because a triangle of c is not read, or a triangle of a is zero. Row i of c
// ends at column i + columns_to; its sums run over k from i - k_from to i + k_to. Only whole tiles are skipped. Tiles
// on the diagonal are computed in full, so the zeros of a in them must be there.
struct Triangle {
  static constexpr int64_t kNone = int64_t{1} << 40;
  int64_t columns_to = kNone, k_to = kNone, k_from = kNone;
};

// As many rows of a tile as leave registers for operands.
#ifdef __AVX512F__
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 6;
#endif

// sum += a b for kRows rows and kVectors registers of columns; the last register has `lanes`.
template <bool kPairs, int kRows, int kVectors, typename Lanes>
OF_INLINE void AddProducts(int64_t k, const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t ldb,
                           F32s (&sum)[kRows][kVectors], Lanes lanes) {
  constexpr int64_t kLast = (kVectors - 1) * kLanes;
  for (int64_t p = 0; p < k; ++p) {
    F32s row[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j + 1 < kVectors; ++j) row[j] = Load(b + p * ldb + j * kLanes, AllLanes{});
    row[kVectors - 1] = Load(b + p * ldb + kLast, lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const F32s x = Broadcast<kPairs>(a + i * a_row + p * a_k);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] = MultiplyAdd<kPairs>(x, row[j], sum[i][j]);
    }
  }
}

// Stores kRows rows of kVectors registers of c; of the last register only `lanes`.
template <int kRows, int kVectors, bool kAccumulate, bool kPairs, typename Lanes>
OF_INLINE void GemmTile(int64_t k, const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t ldb, float* c,
                        int64_t ldc, Lanes lanes) {
  constexpr int64_t kLast = (kVectors - 1) * kLanes;
  F32s sum[kRows][kVectors] = {};
  AddProducts<kPairs>(k, a, a_row, a_k, b, ldb, sum, lanes);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    float* const to = c + i * ldc;
#pragma GCC unroll 2
    for (int j = 0; j + 1 < kVectors; ++j) {
      float* const at = to + j * kLanes;
      Store(at, kAccumulate ? sum[i][j] + Load(at, AllLanes{}) : sum[i][j], AllLanes{});
    }
    F32s& last = sum[i][kVectors - 1];
    Store(to + kLast, kAccumulate ? last + Load(to + kLast, lanes) : last, lanes);
  }
}

// The tiles of a block of columns, from row `i` on.
template <int kVectors, bool kAccumulate, bool kPairs, typename Lanes>
inline void GemmColumns(int64_t i, int64_t m, int64_t k, Strided a, const float* b, int64_t ldb, float* c, int64_t ldc,
                        const Triangle& triangle, Lanes lanes) {
  const auto tile = [&]<int kRows>() {
    const int64_t begin = std::max<int64_t>(0, i - triangle.k_from) / (kPairs ? 2 : 1);
    const int64_t end = std::min(k, Steps<kPairs>(i + kRows + triangle.k_to));
    GemmTile<kRows, kVectors, kAccumulate, kPairs>(end - begin, a.data + i * a.row_stride + begin * a.column_stride,
                                                   a.row_stride, a.column_stride, b + begin * ldb, ldb, c + i * ldc,
                                                   ldc, lanes);
    i += kRows;
  };
  while (i + kTileRows <= m) tile.template operator()<kTileRows>();
  if (i + 4 <= m) tile.template operator()<4>();
  if (i + 2 <= m) tile.template operator()<2>();
  if (i < m) tile.template operator()<1>();
}

// c[m,n] = a[m,k] b[k,n], or c += a b, without the part that `triangle` skips. Rows of b and c are dense, with strides
// ldb and ldc; k counts steps.
template <bool kAccumulate, bool kPairs = false>
inline void SmallGemm(int64_t m, int64_t n, int64_t k, Strided a, const float* b, int64_t ldb, float* c, int64_t ldc,
                      const Triangle& triangle = {}) {
  constexpr int64_t kOne = kLanes;
  const auto first_row = [&](int64_t column) {
    return std::max<int64_t>(0, column - triangle.columns_to) / kTileRows * kTileRows;
  };
  const auto columns = [&]<int kVectors>(int64_t j, auto lanes) {
    GemmColumns<kVectors, kAccumulate, kPairs>(first_row(j), m, k, a, b + j, ldb, c + j, ldc, triangle, lanes);
  };
  int64_t j = 0;
  while (j + 2 * kOne <= n) {
    if (first_row(j) == first_row(j + kOne)) {
      columns.template operator()<2>(j, AllLanes{});
      j += 2 * kOne;
    } else {
      columns.template operator()<1>(j, AllLanes{});
      j += kOne;
    }
  }
  if (n - j == kOne) {
    columns.template operator()<1>(j, AllLanes{});
  } else if (n - j > kOne) {
    columns.template operator()<2>(j, SomeLanes{static_cast<int>(n - j - kOne)});
  } else if (n > j) {
    columns.template operator()<1>(j, SomeLanes{static_cast<int>(n - j)});
  }
}

}  // namespace oneflow::cpu
