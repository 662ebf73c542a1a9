#include "kernels/cpu/panel_gemm.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/small_gemm.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kTileColumns = 2 * kLanes;
// Steps of k between two times that rows ahead are asked for: a line of each.
constexpr int64_t kStepsOfLine = kLine;
static_assert(kLine % kLanes == 0);
// Of b: half of a second-level cache.
constexpr int64_t kMostBytes = 512 << 10;
// From where on laying out b pays.
constexpr int64_t kLeastRows = 1024, kLeastRowsOfTransposed = 512;

int64_t RowOfA(const ProductShape& s) { return s.row_a == 0 ? s.k : s.row_a; }
int64_t RowOfC(const ProductShape& s) { return s.row_c == 0 ? s.n : s.row_c; }

// Columns [j, j + columns) of op(b), one step of k after the other.
void LayPanel(const ProductShape& s, const float* b, int64_t j, int64_t columns, float* panel) {
  const int64_t row = s.row_b != 0 ? s.row_b : s.transpose_b ? s.k : s.n;
  if (!s.transpose_b) {
    for (int64_t p = 0; p < s.k; ++p) {
      for (int64_t i = 0; i < columns; i += kLanes) Store(panel + p * columns + i, Load(b + p * row + j + i));
    }
    return;
  }
  for (int64_t i = 0; i < columns; i += kLanes) {
    for (int64_t p = 0; p < s.k; p += kLanes) {
      F32s tile[kLanes];
#pragma GCC unroll 16
      for (int64_t q = 0; q < kLanes; ++q) tile[q] = Load(b + (j + i + q) * row + p);
      Transpose(tile);
#pragma GCC unroll 16
      for (int64_t q = 0; q < kLanes; ++q) Store(panel + (p + q) * columns + i, tile[q]);
    }
  }
}

// A tile of c, of kRows rows and the columns of a panel; and `ahead` rows from `next` on, which are asked for.
template <int kRows, int kVectors>
OF_INLINE void PanelTile(int64_t k, const float* a, int64_t row_a, const float* panel, const float* bias, float* c,
                         int64_t row_c, const float* next, int64_t ahead) {
  F32s sum[kRows][kVectors] = {};
  for (int64_t p = 0; p < k; p += kStepsOfLine) {
    for (int64_t i = 0; i < ahead; ++i) __builtin_prefetch(next + i * row_a + p);
    AddProducts<false>(kStepsOfLine, a + p, row_a, 1, panel + p * kVectors * kLanes, kVectors * kLanes, sum,
                       AllLanes{});
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      const int64_t at = j * kLanes;
      Store(c + i * row_c + at, bias == nullptr ? sum[i][j] : sum[i][j] + Load(bias + at));
    }
  }
}

// Rows [i, end) of c, in tiles of kRows as far as they are whole; returns where they end.
template <int kRows>
int64_t MultiplyTiles(const ProductShape& s, const float* a, const float* panels, const float* bias, float* c,
                      int64_t i, int64_t end) {
  const int64_t row_a = RowOfA(s), row_c = RowOfC(s), n = s.n, k = s.k;
  const int64_t num_panels = (n + kTileColumns - 1) / kTileColumns;
  for (; i + kRows <= end; i += kRows) {
    const float* const rows = a + i * row_a;
    const int64_t left = std::min<int64_t>(kRows, end - i - kRows);  // rows of the next tile
    for (int64_t panel = 0; panel < num_panels; ++panel) {
      const int64_t j = panel * kTileColumns;
      const int64_t first = left * panel / num_panels, ahead = left * (panel + 1) / num_panels - first;
      const float* const next = rows + (kRows + first) * row_a;
      const float* const of_panel = bias == nullptr ? nullptr : bias + j;
      if (j + kTileColumns <= n) {
        PanelTile<kRows, 2>(k, rows, row_a, panels + j * k, of_panel, c + i * row_c + j, row_c, next, ahead);
      } else {
        PanelTile<kRows, 1>(k, rows, row_a, panels + j * k, of_panel, c + i * row_c + j, row_c, next, ahead);
      }
    }
  }
  return i;
}

}  // namespace

bool SuitsPanels(const ProductShape& s) {
  const int64_t least = s.transpose_b ? kLeastRowsOfTransposed : kLeastRows;
  return s.batch == 1 && !s.transpose_a && !s.accumulate && s.m >= least && s.n > 0 && s.k > 0 && s.n % kLine == 0 &&
         s.k % kStepsOfLine == 0 && s.n * s.k <= kMostBytes / static_cast<int64_t>(sizeof(float));
}

void GemmByPanels(const ProductShape& s, const float* a, const float* b, const float* bias, float* c, float* panels) {
  const int64_t panel_bytes = 2 * kTileColumns * s.k * static_cast<int64_t>(sizeof(float));
  ParallelFor((s.n + kTileColumns - 1) / kTileColumns, Grain(panel_bytes), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * kTileColumns; j < std::min(end * kTileColumns, s.n); j += kTileColumns) {
      LayPanel(s, b, j, std::min(kTileColumns, s.n - j), panels + j * s.k);
    }
  });
  const int64_t tiles = (s.m + kTileRows - 1) / kTileRows;
  ParallelFor(tiles, Grain(kTileRows * (s.k + s.n) * static_cast<int64_t>(sizeof(float))),
              [&](int64_t begin, int64_t end) {
                const int64_t last = std::min(end * kTileRows, s.m);
                int64_t i = MultiplyTiles<kTileRows>(s, a, panels, bias, c, begin * kTileRows, last);
                i = MultiplyTiles<4>(s, a, panels, bias, c, i, last);
                i = MultiplyTiles<2>(s, a, panels, bias, c, i, last);
                MultiplyTiles<1>(s, a, panels, bias, c, i, last);
              });
}

}  // namespace oneflow::cpu
