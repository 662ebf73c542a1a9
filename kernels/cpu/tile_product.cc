#include "kernels/cpu/tile_product.h"

#include "kernels/cpu/tile.h"

#if ONEFLOW_TILES == 0

namespace oneflow::cpu {
std::unique_ptr<NarrowProduct> MakeTileProduct(const ProductShape&, DType, DType, int) { return nullptr; }
}  // namespace oneflow::cpu

#else

#include <algorithm>
#include <cstring>

#include "kernels/cpu/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_blocks.h"
#include "kernels/cpu/tile_pack.h"
#include "oneflow_core/packed.h"

namespace oneflow::cpu {
namespace {

// Bytes of c above which it goes past the caches: what comes next would not find all of it in a second cache anyway,
// and no line is read before it is written.
constexpr int64_t kMostCachedOutput = 512 << 10;
// Bytes of a's rows that are multiplied by all panels in turn: a third of a second cache of 2 MiB, since a panel and c's
// lines pass through it too.
constexpr int64_t kBytesOfStrips = 768 << 10;
constexpr int64_t kMostStrips = 16;

int64_t BlocksOf(int64_t n) { return (n + kBlock - 1) / kBlock; }
int64_t StepsOf(int64_t k) { return (k + kTileTerms - 1) / kTileTerms; }
int64_t StripsAtOnce(int64_t steps) {
  const int64_t strip_bytes = 2 * kTileBytes * steps;
  // Long sums gain by few strips: what is asked for of the next panel is then spread over less.
  return std::clamp<int64_t>(kBytesOfStrips / strip_bytes, 4, kMostStrips);
}
bool GoesPast(const void* c, int64_t bytes) {
  return bytes > kMostCachedOutput && reinterpret_cast<uintptr_t>(c) % kTileRowBytes == 0;
}

// finish() of MultiplyStrips that stores the rows of c[m,n] as they are.
template <bool kPast, typename T>
auto StoresRows(T* c, int64_t m, int64_t n) {
  return [=](int64_t strip, int64_t panel, int64_t row, const float* sums) OF_INLINED {
    const int64_t i = strip * kBlock + row;
    if (i < m) StoreLine<kPast>(c + i * n + panel * kBlock, sums);
  };
}

// all's blocks into c[m,n], by the calling thread.
template <typename T, typename AOf, typename BOf>
void MultiplyInto(const StripsAndPanels& all, const AOf& a_of, const BOf& b_of, T* c, int64_t m, int64_t n, bool past) {
  const Tiles::Scope scope;
  if (past) {
    MultiplyStrips(all, a_of, b_of, StoresRows<true>(c, m, n));
    FinishStores();
  } else {
    MultiplyStrips(all, a_of, b_of, StoresRows<false>(c, m, n));
  }
}

// The strips among the threads, or the panels where strips are few.
template <typename Body>
void ForEachPart(int64_t strips, int64_t panels, int64_t steps, const Body& body) {
  const int64_t grain = Grain(2 * kTileBytes * steps);
  const auto all = [&](int64_t s0, int64_t s1, int64_t p0, int64_t p1) {
    return StripsAndPanels{s0, s1, StripsAtOnce(steps), p0, p1, steps};
  };
  if (strips >= 2 * NumThreads()) {
    ParallelFor(strips, grain, [&](int64_t begin, int64_t end) { body(all(begin, end, 0, panels)); });
  } else {
    ParallelFor(panels, grain, [&](int64_t begin, int64_t end) { body(all(0, strips, begin, end)); });
  }
}

// --- by a weight in panels

class PackedTileProduct : public NarrowProduct {
 public:
  PackedTileProduct(const ProductShape& s, DType out) : s_(s), out_(out) {}

  // The last rows of a, where they fill no strip.
  size_t WorkspaceBytes() const override { return s_.m % kBlock == 0 ? 0 : static_cast<size_t>(kBlock * TailRow()); }

  const char* Run(const void* a, const void* b, void* c, void* workspace) const override {
    const auto* const rows = static_cast<const char*>(a);
    const int64_t row = s_.k * static_cast<int64_t>(sizeof(BFloat16)), whole = s_.m / kBlock;
    char* const tail = static_cast<char*>(workspace);
    if (s_.m % kBlock != 0) FillTail(rows + whole * kBlock * row, tail);
    const auto a_of = [=, this](int64_t strip) OF_INLINED {
      return strip < whole ? TilesOfRows(rows + strip * kBlock * row, row) : TilesOfRows(tail, TailRow());
    };
    const auto* const panels = static_cast<const char*>(b);
    const auto b_of = [=, this](int64_t panel) OF_INLINED { return PanelAt(panels, panel); };
    return ByFloat(out_, [&]<typename T>() {
      T* const to = static_cast<T*>(c);
      const bool past = GoesPast(c, s_.m * s_.n * static_cast<int64_t>(sizeof(T)));
      ForEachPart(BlocksOf(s_.m), s_.n / kBlock, StepsOf(s_.k),
                  [&](const StripsAndPanels& all) { MultiplyInto(all, a_of, b_of, to, s_.m, s_.n, past); });
    });
  }

 private:
  // One line more than it has, so that the rows of a tile do not share few sets of the first cache.
  int64_t TailRow() const { return s_.k * static_cast<int64_t>(sizeof(BFloat16)) + kTileRowBytes; }
  void FillTail(const char* from, char* tail) const {
    const int64_t row = s_.k * static_cast<int64_t>(sizeof(BFloat16)), rows = s_.m % kBlock;
    std::memset(tail, 0, static_cast<size_t>(kBlock * TailRow()));
    for (int64_t i = 0; i < rows; ++i) std::memcpy(tail + i * TailRow(), from + i * row, static_cast<size_t>(row));
  }
  // 32 columns, which are half of one of the weight's own panels.
  TilePair PanelAt(const char* b, int64_t panel) const {
    constexpr int64_t kRowBytes = kPanelColumns * kPairedRows * static_cast<int64_t>(sizeof(BFloat16));
    static_assert(kPanelColumns == 2 * kBlock);
    const char* const first = b + panel / 2 * (s_.k / kPairedRows) * kRowBytes + panel % 2 * (kRowBytes / 2);
    return {first, kTileRowBytes, kTileSide * kRowBytes, kRowBytes};
  }

  const ProductShape s_;
  const DType out_;
};

// --- gradients of weights

// Rows of x[..,columns] as strips of a's tiles, for sums over rows: those of step `step` of `steps`, from row `row` on.
void PackTransposed(const BFloat16* x, int64_t rows, int64_t columns, int64_t step, int64_t steps, char* to) {
  const BFloat16* const from = x + step * kTileTerms * columns;
  const int64_t left = rows - step * kTileTerms;
  for (int64_t j = 0; j < columns; j += kTileSide) {
    char* const tile = to + ((j / kBlock * steps + step) * 2 + j / kTileSide % 2) * kTileBytes;
    TransposeTile(from + j, columns, left, columns - j, reinterpret_cast<uint32_t*>(tile));
  }
}
// The same as panels of b's tiles, of the panels from column `first` to `last`.
void PackWoven(const BFloat16* x, int64_t rows, int64_t columns, int64_t first, int64_t last, int64_t step,
               int64_t steps, char* to) {
  const BFloat16* const from = x + step * kTileTerms * columns;
  const int64_t left = rows - step * kTileTerms;
  for (int64_t j = first; j < last; j += kTileSide) {
    char* const tile = to + (((j - first) / kBlock * steps + step) * 2 + j / kTileSide % 2) * kTileBytes;
    WeaveTile(from + j, columns, left, columns - j, reinterpret_cast<uint32_t*>(tile));
  }
}

// Of many sums.
class PackedBothProduct : public NarrowProduct {
 public:
  PackedBothProduct(const ProductShape& s, DType out) : s_(s), out_(out), steps_(StepsOf(s.k)) {}

  size_t WorkspaceBytes() const override { return static_cast<size_t>((s_.m + s_.n) / kBlock * PanelBytes()); }

  const char* Run(const void* a, const void* b, void* c, void* workspace) const override {
    char* const strips = static_cast<char*>(workspace);
    char* const panels = strips + s_.m / kBlock * PanelBytes();
    const int64_t bytes = kTileTerms * (s_.m + s_.n) * static_cast<int64_t>(sizeof(BFloat16));
    ParallelFor(steps_, Grain(bytes), [&](int64_t begin, int64_t end) {
      for (int64_t step = begin; step < end; ++step) {
        PackTransposed(static_cast<const BFloat16*>(a), s_.k, s_.m, step, steps_, strips);
        PackWoven(static_cast<const BFloat16*>(b), s_.k, s_.n, 0, s_.n, step, steps_, panels);
      }
    });
    const auto a_of = [=, this](int64_t strip) OF_INLINED { return PackedTiles(strips + strip * PanelBytes()); };
    const auto b_of = [=, this](int64_t panel) OF_INLINED { return PackedTiles(panels + panel * PanelBytes()); };
    return ByFloat(out_, [&]<typename T>() {
      const bool past = GoesPast(c, s_.m * s_.n * static_cast<int64_t>(sizeof(T)));
      ForEachPart(s_.m / kBlock, s_.n / kBlock, steps_, [&](const StripsAndPanels& all) {
        MultiplyInto(all, a_of, b_of, static_cast<T*>(c), s_.m, s_.n, past);
      });
    });
  }

 private:
  int64_t PanelBytes() const { return 2 * kTileBytes * steps_; }

  const ProductShape s_;
  const DType out_;
  const int64_t steps_;
};

// Of few sums over many rows.
class TileRowsProduct : public NarrowProduct {
 public:
  static constexpr int64_t kMostSums = 64 << 10;
  static constexpr int64_t kSteps = 4, kRows = kSteps * kTileTerms;  // packed at once
  static constexpr int64_t kFewestRows = 4 * kRows;

  TileRowsProduct(const ProductShape& s, DType out, int threads)
      : s_(s), out_(out), parts_(std::min<int64_t>(std::max(1, threads), Chunks(s))) {}

  size_t WorkspaceBytes() const override { return static_cast<size_t>(parts_ * PartBytes()); }

  const char* Run(const void* a, const void* b, void* c, void* workspace) const override {
    char* const space = static_cast<char*>(workspace);
    ParallelForThread(parts_, 1, static_cast<int>(parts_), [&](int64_t begin, int64_t end, int) {
      const Tiles::Scope scope;
      for (int64_t part = begin; part < end; ++part) {
        Sum(static_cast<const BFloat16*>(a), static_cast<const BFloat16*>(b), part, space + part * PartBytes());
      }
    });
    return ByFloat(out_, [&]<typename T>() { Combine(space, static_cast<T*>(c)); });
  }

 private:
  static int64_t Chunks(const ProductShape& s) { return (s.k + kRows - 1) / kRows; }
  static constexpr int64_t kBlockSums = kBlock * kBlock;
  int64_t SumBytes() const { return s_.m * s_.n * static_cast<int64_t>(sizeof(float)); }
  // A thread's: its sums, block by block; a chunk of a, and of a panel of b.
  int64_t PartBytes() const { return SumBytes() + 2 * kTileBytes * kSteps * (s_.m / kBlock + 1); }

  void Sum(const BFloat16* a, const BFloat16* b, int64_t part, char* space) const {
    float* const sums = reinterpret_cast<float*>(space);
    char* const strips = space + SumBytes();
    char* const panel = strips + 2 * kTileBytes * kSteps * (s_.m / kBlock);
    const int64_t begin = Chunks(s_) * part / parts_, end = Chunks(s_) * (part + 1) / parts_;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t row = chunk * kRows, rows = std::min(s_.k - row, kRows), steps = StepsOf(rows);
      for (int64_t step = 0; step < steps; ++step) PackTransposed(a + row * s_.m, rows, s_.m, step, kSteps, strips);
      for (int64_t j = 0; j < s_.n; j += kBlock) {
        for (int64_t step = 0; step < steps; ++step) {
          PackWoven(b + row * s_.n, rows, s_.n, j, j + kBlock, step, kSteps, panel);
        }
        float* const of_panel = sums + j / kBlock * (s_.m / kBlock) * kBlockSums;
        AddPanel(strips, panel, steps, chunk == begin, chunk + 1 < end ? b + (row + kRows) * s_.n + j : nullptr,
                 of_panel);
      }
    }
  }

  // sums += strips x panel, block by block. Meanwhile the panel's rows of the next chunk are asked for, from `ahead` on.
  void AddPanel(const char* strips, const char* panel, int64_t steps, bool is_first, const BFloat16* ahead,
                float* sums) const {
    const int64_t blocks = s_.m / kBlock;
    for (int64_t i = 0; i < blocks; ++i, sums += kBlockSums) {
      if (is_first) {
        ZeroSums();
      } else {
        LoadSums(sums, kBlock);
      }
      MultiplyBlock(PackedTiles(strips + i * 2 * kTileBytes * kSteps), PackedTiles(panel), steps);
      StoreSums(sums, kBlock);
      if (ahead == nullptr) continue;
      for (int64_t row = i * kRows / blocks; row < (i + 1) * kRows / blocks; ++row) {
        __builtin_prefetch(ahead + row * s_.n, 0, 2);
      }
    }
  }

  template <typename T>
  void Combine(const char* space, T* c) const {
    const int64_t blocks = s_.m / kBlock;
    ParallelFor(s_.m, Grain(parts_ * s_.n * static_cast<int64_t>(sizeof(float))), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < s_.n; j += kLanes) {
          const int64_t at = (j / kBlock * blocks + i / kBlock) * kBlockSums + i % kBlock * kBlock + j % kBlock;
          F32s sum = Load(reinterpret_cast<const float*>(space) + at);
          for (int64_t part = 1; part < parts_; ++part) {
            sum += Load(reinterpret_cast<const float*>(space + part * PartBytes()) + at);
          }
          Store(c + i * s_.n + j, sum);
        }
      }
    });
  }

  const ProductShape s_;
  const DType out_;
  const int64_t parts_;
};

bool IsDense(const ProductShape& s) { return s.row_a == 0 && s.row_b == 0 && s.row_c == 0; }

}  // namespace

std::unique_ptr<NarrowProduct> MakeTileProduct(const ProductShape& shape, DType in, DType out, int threads) {
  const ProductShape& s = shape;
  const bool suits = in == DType::kBFloat16 && s.batch == 1 && IsDense(s) && !s.accumulate && s.m > 0 && s.n > 0 &&
                     s.k > 0 && s.n % kBlock == 0;
  if (!suits) return nullptr;
  if (s.packed_b) return std::make_unique<PackedTileProduct>(s, out);
  if (!s.transpose_a || s.transpose_b || s.m % kBlock != 0) return nullptr;
  if (s.m * s.n <= TileRowsProduct::kMostSums && s.k >= TileRowsProduct::kFewestRows) {
    return std::make_unique<TileRowsProduct>(s, out, threads);
  }
  return std::make_unique<PackedBothProduct>(s, out);
}

}  // namespace oneflow::cpu

#endif
