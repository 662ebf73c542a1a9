// Attention on floats and on pairs of bf16 goes by panels of keys and blocks of queries (attention.cc): which keys a
// block computes, and operands as products (small_gemm.h) read them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cpu/attention_head.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/score_rows.h"
#include "kernels/cpu/small_gemm.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

constexpr int64_t kQueries = 32;       // of a block: a causal half wastes little
constexpr int64_t kKeysOfPanel = 128;  // of d 64 the keys of a panel take 32 KiB, as do its values

struct PanelShape : AttentionShape {
  // `q` is input 0 of attention, input 1 of its gradient.
  PanelShape(const KernelArgs& args, int q) : AttentionShape(args.in[q], args.in[q + 1], *args.attrs), scores(args, q) {
    // Rows of scores: whole vectors, and one more so that a power of two does not put all rows into the same cache set.
    padded = (keys + kLine - 1) / kLine * kLine;
    stride = std::min(padded, kKeysOfPanel) + kLine;
  }
  AttentionScores scores;
  int64_t padded, stride;
  int64_t blocks() const { return (tokens + kQueries - 1) / kQueries; }
  // Keys of the panel that begins at `key`.
  int64_t KeysFrom(int64_t key) const { return std::min(kKeysOfPanel, keys - key); }
  // Floats for rows beside the scores of a query: what is kept, and slopes.
  int64_t beside() const { return scores.are_plain() ? 0 : 2 * stride; }
};

// Keys in whole lines. As narrow as the floats in whose scratch memory ranges lie, which may begin at any float.
struct KeyRange {
  int32_t from, to;
};
static_assert(alignof(KeyRange) == alignof(float));

// Floats that take the ranges of a head's blocks.
inline int64_t RangeFloats(const PanelShape& s) {
  return s.blocks() * static_cast<int64_t>(sizeof(KeyRange) / sizeof(float));
}

// Those that the queries from `begin` to before `end` compute: at least a line. REQUIRES: there are keys.
inline KeyRange ComputedKeys(const PanelShape& s, const ScoreRows& scores, int64_t begin, int64_t end) {
  const auto up = [](int64_t key) { return (key + kLine - 1) / kLine * kLine; };
  int64_t from = std::min(s.FirstVisible(begin) / kLine * kLine, std::max<int64_t>(0, s.padded - kLine));
  int64_t to = std::max(s.causal ? up(s.Visible(end - 1)) : s.padded, std::min(from + kLine, s.padded));
  if (scores.has_documents() && s.keys > 0) {
    const auto [first_key, end_key] = scores.KeysOf(begin, end);
    const int64_t last = s.causal ? std::clamp<int64_t>(begin + s.behind, 0, s.keys - 1) : s.keys - 1;
    from = std::max(from, std::min(first_key, last) / kLine * kLine);
    to = std::max(from + kLine, std::min(to, up(end_key)));
  }
  return {static_cast<int32_t>(from), static_cast<int32_t>(to)};
}

// A block of queries, and of the keys that it computes those of a panel.
struct QueryBlock {
  // `all`: what ComputedKeys() gives.
  QueryBlock(const PanelShape& s, const KeyRange& all, int64_t first, int64_t panel)
      : begin(first),
        end(std::min(s.tokens, first + kQueries)),
        from(std::max<int64_t>(all.from, panel)),
        computed(std::min<int64_t>(all.to, panel + kKeysOfPanel) - from),
        keys(std::min(computed, s.keys - from)),
        in_panel(from - panel),
        is_first(all.from >= panel),
        is_last(all.to <= panel + kKeysOfPanel) {
    if (s.causal && begin + s.behind >= from) diagonal = begin + s.behind - from;
  }
  int64_t rows() const { return end - begin; }
  bool is_empty() const { return computed <= 0; }
  int64_t begin, end;
  int64_t from, computed, keys;  // the first key; how many, in whole lines; how many there are
  int64_t in_panel;              // the first key, counted from the panel's
  bool is_first, is_last;        // of the panels where the block computes keys
  int64_t diagonal = Triangle::kNone;
  // Of the keys that are computed, those that a query sees as far as its place goes: from the first to before the last.
  std::pair<int64_t, int64_t> Visible(const PanelShape& s, int64_t query) const {
    const int64_t last = std::clamp<int64_t>(s.Visible(query) - from, 0, keys);
    return {std::min(std::max<int64_t>(0, s.FirstVisible(query) - from), last), last};
  }
  // Products that give scores, read rows of them, or read columns of them.
  Triangle OfScores() const { return {.columns_to = diagonal}; }
  Triangle OfRows() const { return {.k_to = diagonal}; }
  Triangle OfColumns() const { return {.k_from = diagonal}; }
};

// body(block) for each panel, and in it for each block of queries that computes keys of it; before those of a panel,
// begin(first key). `ranges` has room for s.blocks().
template <typename Begin, typename Body>
void ForPanels(const PanelShape& s, const ScoreRows& scores, KeyRange* ranges, const Begin& begin, const Body& body) {
  for (int64_t i = 0; i < s.blocks(); ++i) {
    ranges[i] = ComputedKeys(s, scores, i * kQueries, std::min(s.tokens, (i + 1) * kQueries));
  }
  for (int64_t panel = 0; panel < s.keys; panel += kKeysOfPanel) {
    begin(panel);
    for (int64_t i = 0; i < s.blocks(); ++i) {
      const QueryBlock block(s, ranges[i], i * kQueries, panel);
      if (!block.is_empty()) body(block);
    }
  }
}

// Two rows of bf16 as pairs of neighbours in a column.
OF_INLINE F32s Interleave(F32s first, F32s second) { return (F32s)((U32s)first >> 16 | (U32s)second); }

// A head in its tensor.
template <typename T>
struct HeadRows {
  T* data;
  int64_t count, stride;  // rows; elements from one to the next
  T* row(int64_t i) const { return data + i * stride; }
};
template <typename T>
HeadRows<T> OfQueries(const PanelShape& s, T* x) {
  return {x, s.tokens, s.columns};
}
template <typename T>
HeadRows<T> OfKeys(const PanelShape& s, T* x) {
  return {x, s.keys, s.kv_columns};
}
// Of the panel that begins at `key`.
template <typename T>
HeadRows<T> OfPanel(const PanelShape& s, T* x, int64_t key) {
  return {x + key * s.kv_columns, s.KeysFrom(key), s.kv_columns};
}

// to = the [count, d] head in steps along the rows, dense: rows that lie 4 KiB / 2^n apart would share a few sets of
// the first-level cache.
template <bool kPairs, typename T>
void PackHead(const HeadRows<const T>& from, int64_t d, float* to) {
  for (int64_t i = 0; i < Steps<kPairs>(from.count); ++i) {
    VecLoop(d, [&](int64_t c, auto lanes) {
      if constexpr (kPairs) {
        const T* const row = from.row(2 * i) + c;
        const bool has_second = 2 * i + 1 < from.count;
        Store(to + i * d + c, Interleave(Load(row, lanes), has_second ? Load(row + from.stride, lanes) : F32s{}),
              lanes);
      } else {
        Store(to + i * d + c, Load(from.row(i) + c, lanes), lanes);
      }
    });
  }
}
template <typename T>
void UnpackHead(const float* from, int64_t d, const HeadRows<T>& to) {
  for (int64_t i = 0; i < to.count; ++i) {
    VecLoop(d, [&](int64_t c, auto lanes) { Store(to.row(i) + c, Load(from + i * d + c, lanes), lanes); });
  }
}

// to[column][row] = from[row][column] for `count` rows, `stride` apart; columns behind the last up to a whole line are
// zero. Rows of `to` are `to_stride` apart.
template <typename T>
void TransposeRows(const T* from, int64_t count, int64_t stride, int64_t width, float* to, int64_t to_stride) {
  for (int64_t row0 = 0; row0 < (count + kLine - 1) / kLine * kLine; row0 += kLanes) {
    const int64_t rows = std::min(kLanes, count - row0);
    VecLoop(width, [&](int64_t column0, auto lanes) {
      F32s tile[kLanes] = {};
      for (int64_t i = 0; i < rows; ++i) tile[i] = Load(from + (row0 + i) * stride + column0, lanes);
      Transpose(tile);
      const int64_t columns = std::min(kLanes, width - column0);
      for (int64_t i = 0; i < columns; ++i) Store(to + (column0 + i) * to_stride + row0, tile[i]);
    });
  }
}

// to[step][row] = the [count, d] rows in steps along d, which are floats or pairs in their place.
template <bool kPairs, typename T>
void TransposeHead(const HeadRows<const T>& from, int64_t d, float* to, int64_t to_stride) {
  if constexpr (kPairs) {
    const float* const pairs = reinterpret_cast<const float*>(from.data);
    TransposeRows(pairs, from.count, from.stride / 2, d / 2, to, to_stride);
  } else {
    TransposeRows(from.data, from.count, from.stride, d, to, to_stride);
  }
}

// A head's rows from `begin` on in steps along d: where they lie, or in `packed`, which holds all of them as floats.
template <bool kPairs, typename T>
Strided RowsFrom(const PanelShape& s, const T* x, const float* packed, int64_t begin) {
  if constexpr (kPairs) {
    return {reinterpret_cast<const float*>(x + begin * s.columns), s.columns / 2, 1};
  } else if constexpr (std::is_same_v<T, float>) {
    if (packed == nullptr) return {x + begin * s.columns, s.columns, 1};
  }
  return {packed + begin * s.d, s.d, 1};
}

// The rows from `begin` on of sums for each query, which are floats: in the tensor itself where it holds floats, else
// in `scratch`, which has room for all queries.
template <typename T>
struct QueryRows {
  QueryRows(const PanelShape& s, T* tensor, float* scratch, int64_t begin) {
    if constexpr (std::is_same_v<T, float>) {
      data = tensor + begin * s.columns;
      stride = s.columns;
    } else {
      data = scratch + begin * s.d;
      stride = s.d;
    }
  }
  float* data;
  int64_t stride;
};

// Scores of a row in steps along the keys: in place. `n` are whole vectors.
template <bool kPairs>
void RoundRow(float* row, int64_t n) {
  if constexpr (kPairs) {
    BFloat16* const to = reinterpret_cast<BFloat16*>(row);
    for (int64_t i = 0; i < n; i += kLanes) Store(to + i, Load(row + i));
  }
}

// Scores in steps along the queries: where they lie, or in `pairs`.
template <bool kPairs>
const float* AlongQueries(const PanelShape& s, int64_t rows, int64_t computed, const float* scores, float* pairs) {
  if constexpr (!kPairs) return scores;
  const auto rounded = [](const float* x) OF_INLINED {
    const BFloat16* const type = nullptr;
    return Widen(Narrow(Load(x), type), type);
  };
  for (int64_t i = 0; i < rows; i += 2) {
    const float* const row = scores + i * s.stride;
    for (int64_t j = 0; j < computed; j += kLanes) {
      const F32s second = i + 1 < rows ? rounded(row + s.stride + j) : F32s{};
      Store(pairs + i / 2 * s.stride + j, Interleave(rounded(row + j), second));
    }
  }
  return pairs;
}

}  // namespace oneflow::cpu
