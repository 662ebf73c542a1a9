#include "kernels/cpu/tile_product.h"

#include "kernels/cpu/tile.h"

#if ONEFLOW_TILES == 0

namespace oneflow::cpu {
std::unique_ptr<NarrowProduct> MakeTileProduct(const ProductShape&, DType, DType, int) { return nullptr; }
size_t PanelProductWorkspace(const PanelProduct&) { return 0; }
const char* RunPanelProduct(const PanelProduct&, void*) { return "there are no tiles"; }
}  // namespace oneflow::cpu

#else

#include <algorithm>
#include <cstring>

#include "kernels/cpu/float_functions.h"
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
// Bytes of a's rows that are multiplied by all panels in turn: a third of a second cache of 2 MiB, since a panel and
// c's lines pass through it too.
constexpr int64_t kBytesOfStrips = 768 << 10;
constexpr int64_t kMostStrips = 16;

int64_t BlocksOf(int64_t n) { return (n + kBlock - 1) / kBlock; }
int64_t StepsOf(int64_t k) { return (k + kTileTerms - 1) / kTileTerms; }
int64_t StripsAtOnce(int64_t steps) {
  const int64_t strip_bytes = 2 * kTileBytes * steps;
  // Long sums gain by few strips: what is asked for of the next panel is then spread over less.
  return std::clamp<int64_t>(kBytesOfStrips / strip_bytes, 4, kMostStrips);
}
// A millisecond of a core, or half: what threads that share the work by its amount may wait for each other.
constexpr double kLongProduct = 1e9;
bool IsLong(int64_t m, int64_t n, int64_t k) {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= kLongProduct;
}
bool GoesPast(const void* c, int64_t bytes) {
  return bytes > kMostCachedOutput && reinterpret_cast<uintptr_t>(c) % kTileRowBytes == 0;
}

// --- by weights in panels

// Column sums are of groups of strips, which do not depend on the number of threads, and then of the groups in order.
struct StripGroups {
  explicit StripGroups(int64_t m) : strips(BlocksOf(m)), size((strips + 63) / 64), count((strips + size - 1) / size) {}
  int64_t strips, size, count;
};

int64_t RowOfA(const PanelProduct::Factor& f) { return f.k * static_cast<int64_t>(sizeof(BFloat16)); }
// Of a copy: one line more than it has, so that the rows of a tile do not share few sets of the first cache.
int64_t TailRow(const PanelProduct::Factor& f) { return RowOfA(f) + kTileRowBytes; }

template <typename T>
class PanelProductRun {
 public:
  PanelProductRun(const PanelProduct& p, void* workspace)
      : p_(p), groups_(p.m), past_(GoesPast(p.h, Bytes(p)) && (p.y == nullptr || GoesPast(p.y, Bytes(p)))) {
    char* at = static_cast<char*>(workspace);
    for (int i = 0; i < p.num_factors && p.m % kBlock != 0; ++i) {
      tails_[i] = at;
      FillTail(p.factors[i], at);
      at += kBlock * TailRow(p.factors[i]);
    }
    sums_ = reinterpret_cast<float*>(at);
  }

  void Run() const {
    if (p_.has_slope) {
      std::memset(sums_, 0, static_cast<size_t>(groups_.count * p_.n) * sizeof(float));
      Multiply([this](int64_t strip, int64_t panel, int64_t row, const float* z)
                   OF_INLINED { FinishSlope(strip, panel, row, z); });
      AddGroups();
    } else if (p_.y != nullptr) {
      Multiply([this](int64_t strip, int64_t panel, int64_t row, const float* z)
                   OF_INLINED { FinishGelu(strip, panel, row, z); });
    } else if (p_.bias != nullptr) {
      Multiply([this](int64_t strip, int64_t panel, int64_t row, const float* z)
                   OF_INLINED { FinishBias(strip, panel, row, z); });
    } else {
      Multiply([this](int64_t strip, int64_t panel, int64_t row, const float* z) OF_INLINED {
        if (strip * kBlock + row < p_.m) StoreRow(p_.h, At(strip, panel, row), z);
      });
    }
  }

 private:
  static int64_t Bytes(const PanelProduct& p) { return p.m * p.n * static_cast<int64_t>(sizeof(T)); }
  int64_t At(int64_t strip, int64_t panel, int64_t row) const { return (strip * kBlock + row) * p_.n + panel * kBlock; }
  OF_INLINE void StoreRow(void* c, int64_t at, const float* row) const {
    T* const to = static_cast<T*>(c) + at;
    if (past_) {
      StoreLine<true>(to, row);
    } else {
      StoreLine<false>(to, row);
    }
  }

  OF_INLINE void FinishBias(int64_t strip, int64_t panel, int64_t row, const float* z) const {
    if (strip * kBlock + row >= p_.m) return;
    alignas(64) float h[kBlock];
    for (int64_t j = 0; j < kBlock; j += kLanes) Store(h + j, Load(z + j) + Load(p_.bias + panel * kBlock + j));
    StoreRow(p_.h, At(strip, panel, row), h);
  }
  OF_INLINE void FinishGelu(int64_t strip, int64_t panel, int64_t row, const float* z) const {
    if (strip * kBlock + row >= p_.m) return;
    alignas(64) float h[kBlock], y[kBlock];
    for (int64_t j = 0; j < kBlock; j += kLanes) {
      Store(h + j, RoundedTo<T>(Load(z + j) + Load(p_.bias + panel * kBlock + j)));
      Store(y + j, GeluOf(Load(h + j)));
    }
    StoreRow(p_.h, At(strip, panel, row), h);
    StoreRow(p_.y, At(strip, panel, row), y);
  }
  OF_INLINE void FinishSlope(int64_t strip, int64_t panel, int64_t row, const float* z) const {
    if (strip * kBlock + row >= p_.m) return;
    const int64_t at = At(strip, panel, row);
    const T* const x = static_cast<const T*>(p_.slope_of) + at;
    float* const sums = sums_ + strip / groups_.size * p_.n + panel * kBlock;
    __builtin_prefetch(x + kBlock * p_.n);  // of the next strip: its rows are too far apart for the processor to see it
    alignas(64) float d[kBlock];
    for (int64_t j = 0; j < kBlock; j += kLanes) {
      const F32s rounded = RoundedTo<T>(GeluGradOf(Load(z + j), Load(x + j)));
      Store(d + j, rounded);
      Store(sums + j, Load(sums + j) + rounded);
    }
    StoreRow(p_.h, at, d);
  }

  template <typename Finish>
  void Multiply(const Finish& finish) const {
    const int64_t panels = p_.n / kBlock;
    StripsAndPanels all = {0, groups_.strips, 0, 0, panels, {}, p_.num_factors};
    for (int i = 0; i < p_.num_factors; ++i) all.steps[i] = StepsOf(p_.factors[i].k);
    all.strips_at_once = StripsAtOnce(all.all_steps());
    const auto multiply = [&](const StripsAndPanels& part) {
      const Tiles::Scope scope;
      MultiplyStrips(
          part, [this](int64_t strip, int product) OF_INLINED { return StripOf(strip, product); },
          [this](int64_t panel, int product) OF_INLINED { return PanelOf(panel, product); }, finish);
      if (past_) FinishStores();
    };
    ForEachPart(groups_, panels, all, multiply);
  }
  TilePair StripOf(int64_t strip, int product) const {
    const PanelProduct::Factor& f = p_.factors[product];
    if ((strip + 1) * kBlock > p_.m) return TilesOfRows(tails_[product], TailRow(f));
    return TilesOfRows(static_cast<const char*>(f.a) + strip * kBlock * RowOfA(f), RowOfA(f));
  }
  TilePair PanelOf(int64_t panel, int product) const {
    const PanelProduct::Factor& f = p_.factors[product];
    return TilesOfPanel(f.w, f.k, panel);
  }
  void FillTail(const PanelProduct::Factor& f, char* tail) const {
    const int64_t whole = p_.m / kBlock * kBlock;
    std::memset(tail, 0, static_cast<size_t>(kBlock * TailRow(f)));
    for (int64_t i = whole; i < p_.m; ++i) {
      std::memcpy(tail + (i - whole) * TailRow(f), static_cast<const char*>(f.a) + i * RowOfA(f),
                  static_cast<size_t>(RowOfA(f)));
    }
  }

  void AddGroups() const {
    std::memset(p_.column_sums, 0, static_cast<size_t>(p_.n) * sizeof(float));
    for (int64_t group = 0; group < groups_.count; ++group) {
      const float* const sums = sums_ + group * p_.n;
      for (int64_t j = 0; j < p_.n; j += kLanes) Store(p_.column_sums + j, Load(p_.column_sums + j) + Load(sums + j));
    }
  }

  // The groups of strips among the threads, or the panels where strips are few. What is long goes in pieces to those
  // that are free, each of whole groups.
  template <typename Body>
  static void ForEachPart(const StripGroups& groups, int64_t panels, const StripsAndPanels& all, const Body& body) {
    if (IsLong(groups.strips * kBlock, panels * kBlock, all.all_steps() * kTileTerms)) {
      StripsAndPanels whole = all;
      whole.strips_at_once = std::max(groups.size, all.strips_at_once / groups.size * groups.size);
      return ForEachPiece(whole, body);
    }
    const int64_t grain = Grain(2 * kTileBytes * all.all_steps());
    if (groups.count >= 2 * NumThreads()) {
      ParallelFor(groups.count, grain, [&](int64_t begin, int64_t end) {
        StripsAndPanels part = all;
        part.first_strip = begin * groups.size;
        part.last_strip = std::min(groups.strips, end * groups.size);
        body(part);
      });
    } else {
      ParallelFor(panels, grain, [&](int64_t begin, int64_t end) {
        StripsAndPanels part = all;
        part.first_panel = begin;
        part.last_panel = end;
        body(part);
      });
    }
  }

  const PanelProduct& p_;
  const StripGroups groups_;
  const bool past_;
  std::array<char*, 3> tails_ = {};  // the last rows of a, where they fill no strip
  float* sums_;                      // by group of strips
};

class PackedTileProduct : public NarrowProduct {
 public:
  PackedTileProduct(const ProductShape& s, DType out) : s_(s), out_(out) {}

  size_t WorkspaceBytes() const override { return PanelProductWorkspace(Call(nullptr, nullptr, nullptr)); }
  const char* Run(const void* a, const void* b, void* c, void* workspace) const override {
    return RunPanelProduct(Call(a, b, c), workspace);
  }

 private:
  PanelProduct Call(const void* a, const void* b, void* c) const {
    return {.m = s_.m, .n = s_.n, .factors = {{{a, b, s_.k}}}, .h = c, .dtype = out_};
  }

  const ProductShape s_;
  const DType out_;
};

// --- gradients of weights

// Rows of x[rows,columns] as strips of a's tiles, for sums over rows: the 32 of step `step`, where a strip has `steps`.
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
    ParallelForFree(steps_, Grain(bytes), MaxThreads(), [&](int64_t begin, int64_t end, int) {
      for (int64_t step = begin; step < end; ++step) {
        PackTransposed(static_cast<const BFloat16*>(a), s_.k, s_.m, step, steps_, strips);
        PackWoven(static_cast<const BFloat16*>(b), s_.k, s_.n, 0, s_.n, step, steps_, panels);
      }
    });
    return ByFloat(out_, [&]<typename T>() { Multiply(strips, panels, static_cast<T*>(c)); });
  }

 private:
  int64_t PanelBytes() const { return 2 * kTileBytes * steps_; }

  template <typename T>
  void Multiply(const char* strips, const char* panels, T* c) const {
    const bool past = GoesPast(c, s_.m * s_.n * static_cast<int64_t>(sizeof(T)));
    const auto a_of = [=, this](int64_t strip) OF_INLINED { return PackedTiles(strips + strip * PanelBytes()); };
    const auto b_of = [=, this](int64_t panel) OF_INLINED { return PackedTiles(panels + panel * PanelBytes()); };
    const StripsAndPanels all = {0, s_.m / kBlock, StripsAtOnce(steps_), 0, s_.n / kBlock, {steps_}};
    const auto multiply = [&](const StripsAndPanels& part) {
      const Tiles::Scope scope;
      MultiplyStrips(part, a_of, b_of, [&](int64_t strip, int64_t panel, int64_t row, const float* sums) OF_INLINED {
        T* const to = c + (strip * kBlock + row) * s_.n + panel * kBlock;
        if (past) {
          StoreLine<true>(to, sums);
        } else {
          StoreLine<false>(to, sums);
        }
      });
      if (past) FinishStores();
    };
    if (IsLong(s_.m, s_.n, s_.k)) return ForEachPiece(all, multiply);
    ParallelFor(all.last_strip, Grain(2 * kTileBytes * steps_), [&](int64_t begin, int64_t end) {
      StripsAndPanels part = all;
      part.first_strip = begin;
      part.last_strip = end;
      multiply(part);
    });
  }

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

  // sums += strips x panel, block by block. Meanwhile the panel's rows of the next chunk are asked for, from `ahead`
  // on.
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

size_t PanelProductWorkspace(const PanelProduct& p) {
  int64_t bytes = 0;
  for (int i = 0; i < p.num_factors && p.m % kBlock != 0; ++i) bytes += kBlock * TailRow(p.factors[i]);
  if (p.has_slope) bytes += StripGroups(p.m).count * p.n * static_cast<int64_t>(sizeof(float));
  return static_cast<size_t>(bytes);
}

const char* RunPanelProduct(const PanelProduct& product, void* workspace) {
  return ByFloat(product.dtype, [&]<typename T>() { PanelProductRun<T>(product, workspace).Run(); });
}

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
