#include "kernels/cpu/rows_product.h"

#include <algorithm>

#include "kernels/cpu/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/small_gemm.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kPanel = 32;  // columns: two registers of sums
// Pairs of rows in a block: a panel of either operand is 8 KiB, a quarter of the first cache.
constexpr int64_t kPairs = 64, kRows = 2 * kPairs;
constexpr int64_t kMostSums = 128 << 10;  // 512 KiB for each thread: half of the second cache
constexpr int64_t kFewestSummedRows = 4 * kRows;

bool Suits(const ProductShape& s, DType in) {
  const bool dense = s.row_a == 0 && s.row_b == 0 && s.row_c == 0;
  return kMultipliesPairs && in == DType::kBFloat16 && s.batch == 1 && s.transpose_a && !s.transpose_b && dense &&
         !s.accumulate && s.m % kPanel == 0 && s.n % kPanel == 0 && s.m * s.n <= kMostSums && s.k >= kFewestSummedRows;
}

static_assert(!kMultipliesPairs || kPanel % kTileRows == 0);

// x[0], y[0], x[1], y[1], ... of a panel's columns.
OF_INLINE void WeavePairs(const BFloat16* x, const BFloat16* y, float* to) {
  typedef uint16_t Halves __attribute__((vector_size(OF_REGISTER_BYTES)));
  typedef uint16_t HalvesUnaligned __attribute__((vector_size(OF_REGISTER_BYTES), aligned(2), may_alias));
  constexpr int64_t kHalves = 2 * kLanes;
  const Halves low =
      ForLanes<Halves>([](size_t i) OF_INLINED { return static_cast<uint16_t>(i / 2 + i % 2 * kHalves); });
  const Halves high = low + static_cast<uint16_t>(kLanes);
  for (int64_t j = 0; j < kPanel; j += kHalves) {
    const Halves a = *reinterpret_cast<const HalvesUnaligned*>(x + j),
                 b = *reinterpret_cast<const HalvesUnaligned*>(y + j);
    Store(to + j, (F32s)__builtin_shuffle(a, b, low));
    Store(to + j + kLanes, (F32s)__builtin_shuffle(a, b, high));
  }
}

// Rows of x[..,columns], of an odd number the last beside zeros: to[column / 32][pair][column % 32], a pair in the
// place of a float.
void WeavePanels(const BFloat16* x, int64_t rows, int64_t columns, float* to) {
  const int64_t pairs = Steps<true>(rows);
  const BFloat16 zeros[kPanel] = {};
  for (int64_t i = 0; i < pairs; ++i) {
    const BFloat16* const first = x + 2 * i * columns;
    const bool has_second = 2 * i + 1 < rows;
    for (int64_t j = 0; j < columns; j += kPanel) {
      WeavePairs(first + j, has_second ? first + columns + j : zeros, to + j * pairs + i * kPanel);
    }
  }
}

class RowsProduct : public NarrowProduct {
 public:
  RowsProduct(const ProductShape& s, DType out, int threads) : s_(s), out_(out), parts_(Parts(s, threads)) {}

  size_t WorkspaceBytes() const override { return static_cast<size_t>(parts_ * PartSize()) * sizeof(float); }

  const char* Run(const void* a, const void* b, void* c, void* workspace) const override {
    float* const space = static_cast<float*>(workspace);
    ParallelForThread(parts_, 1, static_cast<int>(parts_), [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) {
        Sum(static_cast<const BFloat16*>(a), static_cast<const BFloat16*>(b), part, space + part * PartSize());
      }
    });
    return ByFloat(out_, [&]<typename T>() { Combine(space, static_cast<T*>(c)); });
  }

 private:
  static int64_t Blocks(const ProductShape& s) { return (s.k + kRows - 1) / kRows; }
  static int64_t Parts(const ProductShape& s, int threads) {
    return std::min<int64_t>(std::max(1, threads), Blocks(s));
  }
  // A thread's floats: its sums, and a block's panels.
  int64_t PartSize() const { return s_.m * s_.n + kPairs * (s_.m + s_.n); }

  void Sum(const BFloat16* a, const BFloat16* b, int64_t part, float* sums) const {
    float* const woven_a = sums + s_.m * s_.n;
    float* const woven_b = woven_a + kPairs * s_.m;
    const int64_t begin = Blocks(s_) * part / parts_, end = Blocks(s_) * (part + 1) / parts_;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = block * kRows, rows = std::min(s_.k - row, kRows);
      WeavePanels(a + row * s_.m, rows, s_.m, woven_a);
      WeavePanels(b + row * s_.n, rows, s_.n, woven_b);
      if (block == begin) {
        Multiply<false>(rows, woven_a, woven_b, sums);
      } else {
        Multiply<true>(rows, woven_a, woven_b, sums);
      }
    }
  }

  template <bool kAccumulate>
  void Multiply(int64_t rows, const float* a, const float* b, float* sums) const {
    const int64_t pairs = Steps<true>(rows);
    for (int64_t j = 0; j < s_.n; j += kPanel) {
      for (int64_t i = 0; i < s_.m; i += kTileRows) {
        const float* const columns = a + i / kPanel * kPanel * pairs + i % kPanel;
        GemmTile<kTileRows, kPanel / kLanes, kAccumulate, kMultipliesPairs>(
            pairs, columns, 1, kPanel, b + j * pairs, kPanel, sums + i * s_.n + j, s_.n, AllLanes{});
      }
    }
  }

  template <typename T>
  void Combine(const float* space, T* c) const {
    const int64_t bytes = parts_ * static_cast<int64_t>(sizeof(float)) * kLanes;
    ParallelFor(s_.m * s_.n / kLanes, Grain(bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * kLanes; i < end * kLanes; i += kLanes) {
        F32s sum = Load(space + i);
        for (int64_t part = 1; part < parts_; ++part) sum += Load(space + part * PartSize() + i);
        Store(c + i, sum);
      }
    });
  }

  const ProductShape s_;
  const DType out_;
  const int64_t parts_;
};

}  // namespace

std::unique_ptr<NarrowProduct> MakeRowsProduct(const ProductShape& shape, DType in, DType out, int threads) {
  if (!Suits(shape, in)) return nullptr;
  return std::make_unique<RowsProduct>(shape, out, threads);
}

}  // namespace oneflow::cpu
