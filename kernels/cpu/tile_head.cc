#include "kernels/cpu/tile_head.h"

#include "kernels/cpu/tile.h"

#if ONEFLOW_TILES == 0

namespace oneflow::cpu {
bool SuitsTiles(const HeadCall&) { return false; }
size_t TileHeadWorkspace(const HeadCall&) { return 0; }
void RunTileHead(const HeadCall&, void*) {}
}  // namespace oneflow::cpu

#else

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_blocks.h"
#include "kernels/cpu/tile_pack.h"

namespace oneflow::cpu {
namespace {

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;
constexpr int64_t kPairBytes = 2 * kTileBytes;  // of a block's two tiles
constexpr int64_t kMostKeptBytes = 128 << 20;   // of e, so of a block of rows
constexpr int64_t kFewestRowsOfBlock = 256, kMostRowsOfBlock = 1024;
constexpr int64_t kMostParts = 32, kFewestPanelsOfPart = 8;
constexpr int64_t kRowsOfTask = 256;        // where there are few parts
constexpr int64_t kPanelsAtOnce = 32;       // 1,024 classes
constexpr int64_t kStripsOfDw = 8;          // whose gradient stays in the second cache
constexpr int64_t kStripsOfDx = 16;         // whose dz does
constexpr float kMostSum = 1.15292150e18f;  // 2^60: of more the guess was too low

int64_t UpTo(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
int64_t RowBytes(int64_t elements) { return elements * static_cast<int64_t>(sizeof(BFloat16)); }

// How rows and classes are cut.
struct Cuts {
  explicit Cuts(const HeadCall& h) : panels((h.n + kBlock - 1) / kBlock) {
    const int64_t bytes_of_row = panels * kTileRowBytes;
    const int64_t most = h.dloss == nullptr ? kMostRowsOfBlock : kMostKeptBytes / bytes_of_row;
    rows = std::min(UpTo(h.rows, kBlock), std::clamp(most / kBlock * kBlock, kFewestRowsOfBlock, kMostRowsOfBlock));
    parts = std::clamp<int64_t>(panels / kFewestPanelsOfPart, 1, kMostParts);
    steps = h.k / kTileTerms;
  }
  int64_t panels;  // of 32 classes
  int64_t rows;    // of a block, a multiple of 32
  int64_t parts;   // of the panels
  int64_t steps;   // along k
  int64_t panel_of(int64_t part) const { return panels * part / parts; }
  int64_t panel_bytes() const { return steps * kPairBytes; }
};

// The workspace. Of a block of rows, by row where nothing else is said.
struct HeadSpace {
  HeadSpace(const HeadCall& h, const Cuts& cuts, void* memory) : at(static_cast<char*>(memory)) {
    const int64_t floats = cuts.rows * static_cast<int64_t>(sizeof(float));
    for (float** of_parts : {&guess, &sum, &factor}) *of_parts = reinterpret_cast<float*>(Take(cuts.parts * floats));
    for (float** of_rows : {&label, &lse, &label_dz}) *of_rows = reinterpret_cast<float*>(Take(floats));
    lanes = reinterpret_cast<float*>(Take(h.threads * floats * kTileSide));
    w_panel = Take(h.threads * cuts.panel_bytes());
    x_tail = Take(kBlock * (RowBytes(h.k) + kTileRowBytes));
    if (h.dloss != nullptr) {
      const int64_t row_steps = cuts.rows / kBlock, at_once = std::min(kPanelsAtOnce, cuts.panels);
      e = Take(cuts.panels * cuts.rows * kTileRowBytes);
      x = Take(h.k / kBlock * row_steps * kPairBytes);
      dz = Take(at_once * cuts.rows * kTileRowBytes);
      dz_by_rows = Take(at_once * row_steps * kPairBytes);
      w = Take(h.packed ? 0 : h.k / kBlock * at_once * kPairBytes);
      dx = reinterpret_cast<float*>(Take(cuts.rows * h.k * static_cast<int64_t>(sizeof(float))));
    }
    size = static_cast<size_t>(at - static_cast<char*>(memory));
  }
  char* Take(int64_t bytes) {
    char* const piece = at;
    at += UpTo(bytes, kTileRowBytes);
    return piece;
  }
  char* at;
  float *guess, *sum, *factor;    // by part: r, the sum of e, and what makes dz of e
  float *label, *lse, *label_dz;  // the label's logit; lse / ln 2; dz at the label
  float* lanes;                   // by thread: sixteen sums for each row
  char* w_panel;                  // by thread: a panel of w
  char* x_tail;                   // the last rows of x, where they fill no strip
  char* e = nullptr;              // [panel][row][32]
  char* x = nullptr;              // tiles of x along the rows
  char* dz = nullptr;             // [panel of some][row][32]
  char* dz_by_rows = nullptr;     // tiles of it along the rows
  char* w = nullptr;              // tiles of w along those panels' classes
  float* dx = nullptr;            // sums, block by block
  size_t size;
};

class BlockOfRows {
 public:
  BlockOfRows(const HeadCall& h, const Cuts& cuts, const HeadSpace& space, int64_t first)
      : h_(h),
        cuts_(cuts),
        space_(space),
        first_(first),
        rows_(std::min(cuts.rows, h.rows - first)),
        strips_((rows_ + kBlock - 1) / kBlock) {}

  void Run() const {
    FillTail();
    FindSums();
    FindLosses();
    if (h_.dloss == nullptr) return;
    PackX();
    for (int64_t panel = 0; panel < cuts_.panels; panel += kPanelsAtOnce) {
      const int64_t end = std::min(cuts_.panels, panel + kPanelsAtOnce);
      GiveDz(panel, end);
      GiveDw(panel, end);
      AddDx(panel, end);
    }
  }

 private:
  const BFloat16* X(int64_t row) const { return h_.x.as<const BFloat16>() + (first_ + row) * h_.k; }
  int32_t Label(int64_t row) const { return h_.labels.as<const int32_t>()[first_ + row]; }
  float* OfPart(float* by_part, int64_t part) const { return by_part + part * cuts_.rows; }

  void FillTail() const {
    const int64_t whole = rows_ / kBlock * kBlock, row = RowBytes(h_.k) + kTileRowBytes;
    if (whole == rows_) return;
    std::memset(space_.x_tail, 0, static_cast<size_t>(kBlock * row));
    for (int64_t i = whole; i < rows_; ++i) {
      std::memcpy(space_.x_tail + (i - whole) * row, X(i), static_cast<size_t>(RowBytes(h_.k)));
    }
  }
  TilePair StripOfX(int64_t strip) const {
    if ((strip + 1) * kBlock <= rows_) return TilesOfRows(X(strip * kBlock), RowBytes(h_.k));
    return TilesOfRows(space_.x_tail, RowBytes(h_.k) + kTileRowBytes);
  }

  // --- 1

  // What is done with logits.
  enum class Pass { kGuess, kGreatest, kGuessed };

  void FindSums() const {
    // Where classes make few parts, each goes by some rows at a time.
    const int64_t at_once = cuts_.parts >= kMostParts / 2 ? strips_ : kRowsOfTask / kBlock;
    const int64_t groups = (strips_ + at_once - 1) / at_once;
    ParallelForFree(cuts_.parts * groups, 1, h_.threads, [&](int64_t begin, int64_t end, int thread) {
      const Tiles::Scope scope;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task / groups, strip = task % groups * at_once;
        SumPart(part, strip, std::min(strips_, strip + at_once), thread);
      }
      FinishStores();
    });
  }

  void SumPart(int64_t part, int64_t begin, int64_t end, int thread) const {
    LogitsOfPart<Pass::kGuess>(part, begin, end, thread);
    for (int64_t strip = begin; strip < end; ++strip) {
      if (!IsTooLow(part, strip)) continue;
      LogitsOfPart<Pass::kGreatest>(part, strip, strip + 1, thread);
      LogitsOfPart<Pass::kGuessed>(part, strip, strip + 1, thread);
    }
  }
  bool IsTooLow(int64_t part, int64_t strip) const {
    const float* const sum = OfPart(space_.sum, part);
    return std::any_of(sum + strip * kBlock, sum + std::min(rows_, (strip + 1) * kBlock),
                       [](float x) { return x > kMostSum; });
  }

  template <Pass kPass>
  void LogitsOfPart(int64_t part, int64_t begin, int64_t end, int thread) const {
    const int64_t first = cuts_.panel_of(part), last = cuts_.panel_of(part + 1);
    float* const guess = OfPart(space_.guess, part);
    float* const lanes = space_.lanes + thread * cuts_.rows * kTileSide;
    std::memset(lanes, 0, static_cast<size_t>(cuts_.rows * kTileSide) * sizeof(float));
    if (kPass == Pass::kGreatest) std::fill(guess + begin * kBlock, guess + end * kBlock, -INFINITY);
    const auto a_of = [this](int64_t strip) OF_INLINED { return StripOfX(strip); };
    const auto finish = [&](int64_t strip, int64_t panel, int64_t row, const float* z) OF_INLINED {
      const int64_t i = strip * kBlock + row;
      if (i < rows_) FinishRow<kPass>(panel, panel == first, i, z, guess + i, lanes + i * kTileSide);
    };
    if (h_.packed) {
      MultiplyStrips(
          {begin, end, end - begin, first, last, {cuts_.steps}}, a_of,
          [this](int64_t panel) OF_INLINED { return TilesOfPanel(h_.w.data, h_.k, panel); }, finish);
    } else {
      char* const packed = space_.w_panel + thread * cuts_.panel_bytes();
      for (int64_t panel = first; panel < last; ++panel) {
        PackPanel(panel, packed);
        MultiplyStrips(
            {begin, end, end - begin, panel, panel + 1, {cuts_.steps}}, a_of,
            [=](int64_t) OF_INLINED { return PackedTiles(packed); }, finish);
      }
    }
    float* const sum = OfPart(space_.sum, part);
    for (int64_t i = begin * kBlock; i < std::min(rows_, end * kBlock); ++i) {
      F32s total = Splat(0);
      for (int64_t j = 0; j < kTileSide; j += kLanes) total += Load(lanes + i * kTileSide + j);
      sum[i] = Sum(total);
    }
  }

  // 32 classes of a row.
  template <Pass kPass>
  OF_INLINE void FinishRow(int64_t panel, bool is_first, int64_t i, const float* z, float* guess, float* lanes) const {
    const int64_t classes = std::min(kBlock, h_.n - panel * kBlock);
    if (kPass == Pass::kGreatest || (kPass == Pass::kGuess && is_first)) {
      F32s max = Splat(-INFINITY);
      VecLoop(classes, [&](int64_t j, auto some) OF_INLINED { max = Max(max, Load(z + j, some, -INFINITY)); });
      const float greatest = MaxOf(max) * kLog2E;
      *guess = kPass == Pass::kGreatest ? std::max(*guess, greatest) : greatest;
      if (kPass == Pass::kGreatest) return;
    }
    const int64_t at = Label(i) - panel * kBlock;
    if (static_cast<uint64_t>(at) < static_cast<uint64_t>(kBlock)) space_.label[i] = z[at];
    alignas(64) float e[kBlock];
    for (int64_t j = 0; j < kBlock; j += kLanes) Store(e + j, Exp2<5>(Load(z + j) * kLog2E - *guess));
    for (int64_t j = classes; j < kBlock; ++j) e[j] = 0;
    for (int64_t j = 0; j < kBlock; j += kLanes) {
      float* const to = lanes + j % kTileSide;
      Store(to, Load(to) + Load(e + j));
    }
    if (h_.dloss == nullptr) return;
    StoreLine<true>(reinterpret_cast<BFloat16*>(space_.e + (panel * cuts_.rows + i) * kTileRowBytes), e);
  }

  // The panel of w in tiles of pairs along k.
  void PackPanel(int64_t panel, char* to) const {
    const BFloat16* const w = h_.w.as<const BFloat16>();
    for (int64_t step = 0; step < cuts_.steps; ++step) {
      for (int64_t half = 0; half < 2; ++half, to += kTileBytes) {
        const int64_t column = panel * kBlock + half * kTileSide, term = step * kTileTerms;
        const int64_t left = std::max<int64_t>(0, h_.n - column);
        auto* const tile = reinterpret_cast<uint32_t*>(to);
        if (h_.transposed) {
          WeaveColumns(w + column * h_.k + term, h_.k, left, kTileTerms, tile);
        } else {
          WeaveTile(w + term * h_.n + column, h_.n, kTileTerms, left, tile);
        }
      }
    }
  }

  // --- 2

  void FindLosses() const {
    ParallelFor(rows_, Grain(cuts_.parts * 4 * static_cast<int64_t>(sizeof(float))), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) FindLoss(i);
    });
  }
  void FindLoss(int64_t i) const {
    const auto of = [&](float* by_part, int64_t part) -> float& { return OfPart(by_part, part)[i]; };
    float top = -INFINITY, total = 0;
    for (int64_t part = 0; part < cuts_.parts; ++part) top = std::max(top, of(space_.guess, part));
    for (int64_t part = 0; part < cuts_.parts; ++part) {
      total += of(space_.sum, part) * std::exp2(of(space_.guess, part) - top);
    }
    const float log_sum = std::log2(total), label = space_.label[i] * kLog2E - top;
    h_.loss[first_ + i] = (log_sum - label) * kLn2;  // before adding top: no cancellation
    if (h_.dloss == nullptr) return;
    const float dloss = h_.dloss->as<const float>()[first_ + i];
    for (int64_t part = 0; part < cuts_.parts; ++part) {
      of(space_.factor, part) = dloss * std::exp2(of(space_.guess, part) - top - log_sum);
    }
    space_.label_dz[i] = dloss * (std::exp2(label - log_sum) - 1);
  }

  // --- 3

  void PackX() const {
    ParallelForFree(strips_, Grain(2 * kBlock * RowBytes(h_.k)), h_.threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t step = begin; step < end; ++step) {
        for (int64_t c = 0; c < h_.k; c += kTileSide) {
          auto* const tile = reinterpret_cast<uint32_t*>(space_.x + (c / kBlock * strips_ + step) * kPairBytes +
                                                         c / kTileSide % 2 * kTileBytes);
          const int64_t left = rows_ - step * kBlock;
          if (h_.turned) {
            WeaveTile(X(step * kBlock) + c, h_.k, left, kTileSide, tile);
          } else {
            TransposeTile(X(step * kBlock) + c, h_.k, left, kTileSide, tile);
          }
        }
      }
    });
  }

  int64_t PartOf(int64_t panel) const {
    int64_t part = panel * cuts_.parts / cuts_.panels;
    while (panel >= cuts_.panel_of(part + 1)) ++part;
    return part;
  }

  // dz of some panels, in rows and along the rows; and the weight's rows of their classes.
  void GiveDz(int64_t first, int64_t last) const {
    ParallelForFree(last - first, 1, h_.threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t panel = first + begin; panel < first + end; ++panel) GiveDzOfPanel(panel, panel - first);
    });
  }
  void GiveDzOfPanel(int64_t panel, int64_t place) const {
    const float* const factor = OfPart(space_.factor, PartOf(panel));
    const auto* e = reinterpret_cast<const BFloat16*>(space_.e + panel * cuts_.rows * kTileRowBytes);
    auto* const dz = reinterpret_cast<BFloat16*>(space_.dz + place * cuts_.rows * kTileRowBytes);
    for (int64_t i = 0; i < rows_; ++i, e += kBlock) {
      BFloat16* const to = dz + i * kBlock;
      for (int64_t j = 0; j < kBlock; j += kLanes) Store(to + j, Load(e + j) * factor[i]);
      const int64_t at = Label(i) - panel * kBlock;
      if (static_cast<uint64_t>(at) < static_cast<uint64_t>(kBlock)) FromFloat(space_.label_dz[i], to + at);
    }
    std::memset(dz + rows_ * kBlock, 0, static_cast<size_t>((strips_ * kBlock - rows_) * kTileRowBytes));
    for (int64_t step = 0; step < strips_; ++step) {
      char* const to = space_.dz_by_rows + (place * strips_ + step) * kPairBytes;
      for (int64_t half = 0; half < 2; ++half) {
        const BFloat16* const from = dz + step * kBlock * kBlock + half * kTileSide;
        auto* const tile = reinterpret_cast<uint32_t*>(to + half * kTileBytes);
        if (h_.turned) {
          TransposeTile(from, kBlock, kTileTerms, kTileSide, tile);
        } else {
          WeaveTile(from, kBlock, kTileTerms, kTileSide, tile);
        }
      }
    }
    if (!h_.packed) PackClasses(panel, place);
  }
  // The classes of a panel as terms of dx: for each 32 columns of k a step.
  void PackClasses(int64_t panel, int64_t place) const {
    const BFloat16* const w = h_.w.as<const BFloat16>();
    const int64_t at_once = std::min(kPanelsAtOnce, cuts_.panels), left = h_.n - panel * kBlock;
    for (int64_t c = 0; c < h_.k; c += kTileSide) {
      auto* const tile = reinterpret_cast<uint32_t*>(space_.w + (c / kBlock * at_once + place) * kPairBytes +
                                                     c / kTileSide % 2 * kTileBytes);
      if (h_.transposed) {
        WeaveTile(w + panel * kBlock * h_.k + c, h_.k, left, kTileSide, tile);
      } else {
        WeaveColumns(w + c * h_.n + panel * kBlock, h_.n, kTileSide, left, tile);
      }
    }
  }

  // dw of the panels' classes: whole, or added to that of the blocks of rows before.
  void GiveDw(int64_t first, int64_t last) const {
    const auto dz_of = [=, this](int64_t panel) OF_INLINED {
      return PackedTiles(space_.dz_by_rows + (panel - first) * strips_ * kPairBytes);
    };
    const auto x_of = [this](int64_t block) OF_INLINED { return PackedTiles(space_.x + block * strips_ * kPairBytes); };
    const int64_t blocks = h_.k / kBlock;
    float* const dw = h_.dw->as<float>();
    if (h_.turned) {
      ForEachPiece({first, last, kStripsOfDw, 0, blocks, {strips_}}, [&](const StripsAndPanels& piece) {
        const Tiles::Scope scope;
        MultiplyStrips(piece, dz_of, x_of,
                       [&](int64_t panel, int64_t block, int64_t row, const float* sums) OF_INLINED {
                         const int64_t i = panel * kBlock + row;
                         if (i < h_.n) StoreOrAdd(dw + i * h_.k + block * kBlock, sums);
                       });
        FinishStores();
      });
    } else {
      ForEachPiece({0, blocks, kStripsOfDw, first, last, {strips_}}, [&](const StripsAndPanels& piece) {
        const Tiles::Scope scope;
        MultiplyStrips(piece, x_of, dz_of,
                       [&](int64_t block, int64_t panel, int64_t row, const float* sums) OF_INLINED {
                         float* const to = dw + (block * kBlock + row) * h_.n + panel * kBlock;
                         const int64_t classes = std::min(kBlock, h_.n - panel * kBlock);
                         if (classes == kBlock) {
                           StoreOrAdd(to, sums);
                         } else {
                           for (int64_t j = 0; j < classes; ++j) to[j] = first_ == 0 ? sums[j] : to[j] + sums[j];
                         }
                       });
        FinishStores();
      });
    }
  }
  OF_INLINE void StoreOrAdd(float* to, const float* sums) const {
    if (first_ > 0) {
      for (int64_t j = 0; j < kBlock; j += kLanes) Store(to + j, Load(to + j) + Load(sums + j));
    } else if (reinterpret_cast<uintptr_t>(to) % kTileRowBytes == 0) {
      StoreLine<true>(to, sums);
    } else {
      StoreLine<false>(to, sums);
    }
  }

  // dx += dz w^T over the panels' classes; behind the last panel it goes out.
  void AddDx(int64_t first, int64_t last) const {
    const int64_t blocks = h_.k / kBlock, at_once = std::min(kPanelsAtOnce, cuts_.panels);
    // A piece is some 32 columns of dx, of a group of strips.
    ForEachPiece({0, strips_, kStripsOfDx, 0, blocks, {}}, [&](const StripsAndPanels& piece) {
      const Tiles::Scope scope;
      for (int64_t block = piece.first_panel; block < piece.last_panel; ++block) {
        TilePair w = PackedTiles(space_.w + block * at_once * kPairBytes);
        if (h_.packed) {
          w = TilesOfPanel(h_.wt->data, h_.n, block);
          w.first += first * w.next;
        }
        for (int64_t strip = piece.first_strip; strip < piece.last_strip; ++strip) {
          const TilePair dz = {space_.dz + strip * kBlock * kTileRowBytes, kTileSide * kTileRowBytes,
                               cuts_.rows * kTileRowBytes, kTileRowBytes};
          float* const sums = space_.dx + (strip * blocks + block) * kBlock * kBlock;
          if (first == 0) {
            ZeroSums();
          } else {
            LoadSums(sums, kBlock);
          }
          MultiplyBlock(dz, w, last - first);
          StoreSums(sums, kBlock);
        }
      }
    });
    if (last < cuts_.panels) return;
    ForRows(rows_, h_.k * static_cast<int64_t>(sizeof(float)), [this](int64_t i) { StoreDx(i); });
  }
  void StoreDx(int64_t i) const {
    const int64_t blocks = h_.k / kBlock;
    ByFloat(h_.dx->dtype, [&]<typename T>() {
      T* const to = h_.dx->as<T>() + (first_ + i) * h_.k;
      for (int64_t c = 0; c < h_.k; c += kLanes) {
        const float* const sums = space_.dx + (i / kBlock * blocks + c / kBlock) * kBlock * kBlock;
        Store(to + c, Load(sums + i % kBlock * kBlock + c % kBlock));
      }
    });
  }

  const HeadCall& h_;
  const Cuts& cuts_;
  const HeadSpace& space_;
  const int64_t first_, rows_, strips_;
};

}  // namespace

bool SuitsTiles(const HeadCall& h) { return h.rows > 0 && h.n > 0 && h.k > 0 && h.k % kTileTerms == 0; }

size_t TileHeadWorkspace(const HeadCall& h) { return HeadSpace(h, Cuts(h), nullptr).size; }

void RunTileHead(const HeadCall& h, void* workspace) {
  const Cuts cuts(h);
  const HeadSpace space(h, cuts, workspace);
  for (int64_t first = 0; first < h.rows; first += cuts.rows) BlockOfRows(h, cuts, space, first).Run();
}

}  // namespace oneflow::cpu

#endif
