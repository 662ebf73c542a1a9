// Blocks of 32 x 32 sums in four tiles, and one thread's loop over strips and panels of such blocks.
//
//     a: 32 rows                             b: 32 columns
//     tile 4 │ first                         tiles 6, 7: first, second
//     tile 5 │ second                        sums: tiles 0 1
//                                                        2 3
//
// Four loads serve four products; the first-level cache delivers no more.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vec.h"
#include "oneflow_core/packed.h"

namespace oneflow::cpu {

inline constexpr int64_t kBlock = 2 * kTileSide;  // rows and columns of a block

// The addresses of two neighbouring tiles of an operand, and the distance to the next two along the sum, in bytes.
struct TilePair {
  const char* first;
  int64_t second;  // from the first tile to the second
  int64_t next;    // from either to the one that follows
  int64_t row;     // from a row of a tile to the next

  const char* at(int64_t step) const { return first + step * next; }
};
// Packed tiles: the two of a step are adjacent, and steps follow one another.
inline TilePair PackedTiles(const void* first) {
  return {static_cast<const char*>(first), kTileBytes, 2 * kTileBytes, kTileRowBytes};
}
// The tiles of a in a row-major matrix of bf16 whose rows are `row` bytes apart.
inline TilePair TilesOfRows(const void* first, int64_t row) {
  return {static_cast<const char*>(first), kTileSide * row, kTileRowBytes, row};
}

// The tiles of b in a weight in panels (oneflow_core/packed.h) of `terms` rows: 32 columns, half a panel.
inline TilePair TilesOfPanel(const void* packed, int64_t terms, int64_t panel) {
  constexpr int64_t kRow = kPanelColumns * kPairedRows * static_cast<int64_t>(sizeof(uint16_t));
  static_assert(kPanelColumns == 2 * kBlock && kPairedRows == 2);
  const char* const first = static_cast<const char*>(packed) + panel / 2 * (terms / kPairedRows) * kRow;
  return {first + panel % 2 * (kRow / 2), kTileRowBytes, kTileSide * kRow, kRow};
}

OF_INLINE void ZeroSums() {
  Tiles::Zero<0>();
  Tiles::Zero<1>();
  Tiles::Zero<2>();
  Tiles::Zero<3>();
}
// A block of floats whose rows are `row` floats apart.
OF_INLINE void LoadSums(const float* from, int64_t row) {
  const int64_t bytes = row * static_cast<int64_t>(sizeof(float));
  Tiles::Load<0>(from, bytes);
  Tiles::Load<1>(from + kTileSide, bytes);
  Tiles::Load<2>(from + kTileSide * row, bytes);
  Tiles::Load<3>(from + kTileSide * row + kTileSide, bytes);
}
OF_INLINE void StoreSums(float* to, int64_t row) {
  const int64_t bytes = row * static_cast<int64_t>(sizeof(float));
  Tiles::Store<0>(to, bytes);
  Tiles::Store<1>(to + kTileSide, bytes);
  Tiles::Store<2>(to + kTileSide * row, bytes);
  Tiles::Store<3>(to + kTileSide * row + kTileSide, bytes);
}

// sums += a b over `steps` times 32 terms. `a` is a TilePair, or says in another way where a step's tiles are.
// between(step) runs after each step's products are issued, while they are computed.
template <typename A, typename Between>
OF_INLINE void MultiplyBlock(const A& a, const TilePair& b, int64_t steps, Between&& between) {
  const char* y = b.first;
  for (int64_t step = 0; step < steps; ++step, y += b.next) {
    const char* const x = a.at(step);
    Tiles::Load<4>(x, a.row);
    Tiles::Load<6>(y, b.row);
    Tiles::Dot<0, 4, 6>();
    Tiles::Load<7>(y + b.second, b.row);
    Tiles::Dot<1, 4, 7>();
    Tiles::Load<5>(x + a.second, a.row);
    Tiles::Dot<2, 5, 6>();
    Tiles::Dot<3, 5, 7>();
    between(step);
  }
}
template <typename A>
OF_INLINE void MultiplyBlock(const A& a, const TilePair& b, int64_t steps) {
  MultiplyBlock(a, b, steps, [](int64_t) OF_INLINED {});
}

// One thread's strips of 32 rows and panels of 32 columns. It goes through all panels for a few strips at a time, so
// that the strips stay in the second-level cache and a panel in the first. A sum may be of several products, each of
// `steps` times 32 terms.
struct StripsAndPanels {
  static constexpr int kMostProducts = 3;
  int64_t first_strip, last_strip, strips_at_once;
  int64_t first_panel, last_panel;
  std::array<int64_t, kMostProducts> steps;
  int products = 1;

  int64_t all_steps() const { return std::accumulate(steps.begin(), steps.begin() + products, int64_t{0}); }
};

// f(index, product), or f(index) where all products share an operand.
template <typename F>
OF_INLINE auto TilesAt(F&& f, int64_t index, int product) {
  if constexpr (std::is_invocable_v<F, int64_t, int>) {
    return f(index, product);
  } else {
    return f(index);
  }
}

// a_of(strip) and b_of(panel) give TilePairs; with several products they take (strip, product). finish(strip, panel,
// row, sums) receives each row of each block, 32 floats; it runs between the products of the next block. A panel is
// prefetched during the one before. REQUIRES: a Tiles::Scope.
template <typename AOf, typename BOf, typename Finish>
void MultiplyStrips(const StripsAndPanels& all, AOf&& a_of, BOf&& b_of, Finish&& finish) {
  alignas(64) float sums[2][kBlock * kBlock];
  const int64_t all_steps = all.all_steps(), rows_at_once = (kBlock + all_steps - 1) / all_steps;
  int64_t strip_before = 0, panel_before = 0, done = kBlock, which = 0;
  const auto finish_rows = [&](int64_t rows) OF_INLINED {
    const int64_t end = std::min(kBlock, done + rows);
    const float* const before = sums[which ^ 1];
    for (; done < end; ++done) finish(strip_before, panel_before, done, before + done * kBlock);
  };
  for (int64_t begin = all.first_strip; begin < all.last_strip; begin += all.strips_at_once) {
    const int64_t end = std::min(all.last_strip, begin + all.strips_at_once), strips = end - begin;
    for (int64_t panel = all.first_panel; panel < all.last_panel; ++panel) {
      const int64_t panel_after = std::min(panel + 1, all.last_panel - 1);
      for (int64_t strip = begin; strip < end; ++strip) {
        const int64_t from = (strip - begin) * kTileSide / strips, to = (strip + 1 - begin) * kTileSide / strips;
        ZeroSums();
        for (int product = 0; product < all.products; ++product) {
          const TilePair next = TilesAt(b_of, panel_after, product);
          MultiplyBlock(TilesAt(a_of, strip, product), TilesAt(b_of, panel, product), all.steps[product],
                        [&](int64_t step) OF_INLINED {
                          for (int64_t row = from; row < to; ++row) {
                            const char* const line = next.first + step * next.next + row * next.row;
                            __builtin_prefetch(line, 0, 2);
                            __builtin_prefetch(line + next.second, 0, 2);
                          }
                          finish_rows(rows_at_once);
                        });
        }
        finish_rows(kBlock);
        StoreSums(sums[which], kBlock);
        which ^= 1;
        strip_before = strip;
        panel_before = panel;
        done = 0;
      }
    }
  }
  finish_rows(kBlock);
}

// multiply(piece) for pieces of the strips and panels, each by the thread that is free: some panels of strips_at_once
// strips. For products that take longer than the threads need to come by.
template <typename Multiply>
void ForEachPiece(const StripsAndPanels& all, const Multiply& multiply) {
  constexpr int64_t kFewestPanels = 3;
  const int64_t panels = all.last_panel - all.first_panel;
  const int64_t blocks = (all.last_strip - all.first_strip + all.strips_at_once - 1) / all.strips_at_once;
  ParallelForFree(blocks * panels, kFewestPanels, MaxThreads(), [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      StripsAndPanels piece = all;
      piece.first_strip = all.first_strip + begin / panels * all.strips_at_once;
      piece.last_strip = std::min(all.last_strip, piece.first_strip + all.strips_at_once);
      piece.first_panel = all.first_panel + begin % panels;
      piece.last_panel = std::min(all.last_panel, piece.first_panel + end - begin);
      begin += piece.last_panel - piece.first_panel;
      multiply(piece);
    }
  });
}

}  // namespace oneflow::cpu
