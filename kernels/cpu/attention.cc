// Scaled dot-product attention and its gradient, per (batch, head) and block of 32 queries: all scores of a block
// against the keys it may see stay in the second-level cache and are never written to memory.
//
//   forward   S = scale Q K^T,  lse_i = log sum_j exp(S_ij),  P = exp(S - lse),  out = P V
//   backward  P again from lse;  dP = dout V^T,  D_i = dout_i . out_i - dlse_i,  dS = scale P (dP - D)
//             dV += P^T dout,  dK += dS^T Q,  dQ = dS K
//
// Scores that are capped, hidden between documents or dropped (score_rows.h) pass through rows beside these. With a
// mask M out = M P V, dS = scale slope P (M dP - D), dV += (M P)^T dout. A query that sees no key has out = 0, lse =
// -inf.
//
// A causal block reads keys up to its last query only, those of a window from its first query's on, and of those no
// tile that no query of it sees. One task is one head of one sample, or, backward, the heads that share keys and
// values; it runs its blocks in order, so sums do not depend on the number of threads. Heads are columns of the [b,t,c]
// tensors: head h has columns h*d .. (h+1)*d. Everything between reading q, k, v, dout and writing out, dq, dk, dv is
// computed on floats; but where the processor multiplies pairs of bf16 (small_gemm.h), products of bf16 read q, k, v
// and dout as they are and P and dS rounded. S, the softmax and all sums are floats. Where the processor has tiles,
// heads of bf16 are computed as tile_attention.h says.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "kernels/cpu/attention_head.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/score_rows.h"
#include "kernels/cpu/small_gemm.h"
#include "kernels/cpu/tile_attention.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kQueries = 32;  // per block: at 128 keys scores take 16 KiB, and a causal half wastes little

struct Shape : AttentionShape {
  // `q` is input 0 of attention, input 1 of its gradient.
  Shape(const KernelArgs& args, int q) : AttentionShape(args.in[q], args.in[q + 1], *args.attrs), scores(args, q) {
    // Rows of scores: whole vectors, and one more so that a power of two does not put all rows into the same cache set.
    padded = (keys + kLine - 1) / kLine * kLine;
    stride = padded + kLine;
  }
  AttentionScores scores;
  int64_t padded, stride;
  // Floats for rows beside the scores of a query: what is kept, and slopes.
  int64_t beside() const { return scores.are_plain() ? 0 : 2 * stride; }
  // Keys that the block of queries from `begin` to `end` computes: from, to.
  int64_t ComputedFrom(int64_t begin) const { return FirstVisible(begin) / kLine * kLine; }
  int64_t Computed(int64_t end) const { return causal ? (Visible(end - 1) + kLine - 1) / kLine * kLine : padded; }
};

// A block of queries, and the keys that it computes.
struct QueryBlock {
  QueryBlock(const Shape& s, const ScoreRows& scores, int64_t first)
      : begin(first), end(std::min(s.tokens, first + kQueries)), from(s.ComputedFrom(first)) {
    from = std::min(from, std::max<int64_t>(0, s.padded - kLine));
    int64_t to = std::max(s.Computed(end), std::min(from + kLine, s.padded));
    if (scores.has_documents() && s.keys > 0) {
      const auto [first_key, end_key] = scores.KeysOf(begin, end);
      const int64_t last = s.causal ? std::clamp<int64_t>(begin + s.behind, 0, s.keys - 1) : s.keys - 1;
      from = std::max(from, std::min(first_key, last) / kLine * kLine);
      to = std::max(from + kLine, std::min(to, (end_key + kLine - 1) / kLine * kLine));
    }
    computed = to - from;
    keys = std::min(computed, s.keys - from);
    if (s.causal && begin + s.behind >= from) diagonal = begin + s.behind - from;
  }
  int64_t rows() const { return end - begin; }
  int64_t begin, end;
  int64_t from, computed, keys;  // the first key; how many, in whole lines; how many there are
  int64_t diagonal = Triangle::kNone;
  // Of the keys that are computed, those that a query sees as far as its place goes: from the first to before the last.
  std::pair<int64_t, int64_t> Visible(const Shape& s, int64_t query) const {
    const int64_t last = std::clamp<int64_t>(s.Visible(query) - from, 0, keys);
    return {std::min(std::max<int64_t>(0, s.FirstVisible(query) - from), last), last};
  }
  // Products that give scores, read rows of them, or read columns of them.
  Triangle OfScores() const { return {.columns_to = diagonal}; }
  Triangle OfRows() const { return {.k_to = diagonal}; }
  Triangle OfColumns() const { return {.k_from = diagonal}; }
};

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
HeadRows<T> OfQueries(const Shape& s, T* x) {
  return {x, s.tokens, s.columns};
}
template <typename T>
HeadRows<T> OfKeys(const Shape& s, T* x) {
  return {x, s.keys, s.kv_columns};
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

// to[column][row] = from[row][column] for rows of floats, or of pairs in their place, `stride` apart; columns behind
// the last key are zero.
template <typename T>
void TransposeRows(const Shape& s, const T* from, int64_t stride, int64_t width, float* to) {
  for (int64_t row0 = 0; row0 < s.padded; row0 += kLanes) {
    const int64_t rows = std::min(kLanes, s.keys - row0);
    VecLoop(width, [&](int64_t column0, auto lanes) {
      F32s tile[kLanes] = {};
      for (int64_t i = 0; i < rows; ++i) tile[i] = Load(from + (row0 + i) * stride + column0, lanes);
      Transpose(tile);
      const int64_t columns = std::min(kLanes, width - column0);
      for (int64_t i = 0; i < columns; ++i) Store(to + (column0 + i) * s.stride + row0, tile[i]);
    });
  }
}

// to[step][row] = a [keys, d] head in steps along d.
template <bool kPairs, typename T>
void TransposeHead(const Shape& s, const T* from, float* to) {
  if constexpr (kPairs) {
    TransposeRows(s, reinterpret_cast<const float*>(from), s.kv_columns / 2, s.d / 2, to);
  } else {
    TransposeRows(s, from, s.kv_columns, s.d, to);
  }
}

// A head's rows from `begin` on in steps along d: where they lie, or in `packed`, which holds all of them as floats.
template <bool kPairs, typename T>
Strided RowsFrom(const Shape& s, const T* x, const float* packed, int64_t begin) {
  if constexpr (kPairs) {
    return {reinterpret_cast<const float*>(x + begin * s.columns), s.columns / 2, 1};
  } else if constexpr (std::is_same_v<T, float>) {
    if (packed == nullptr) return {x + begin * s.columns, s.columns, 1};
  }
  return {packed + begin * s.d, s.d, 1};
}

// Some queries' rows of a product, which are floats: in the rows of the tensor itself where it holds floats, else in
// `scratch`.
template <typename T>
struct QueryRows {
  QueryRows(const Shape& s, T* tensor, float* scratch) {
    if constexpr (std::is_same_v<T, float>) {
      data = tensor;
      stride = s.columns;
    } else {
      data = scratch;
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
const float* AlongQueries(const Shape& s, int64_t rows, int64_t computed, const float* scores, float* pairs) {
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

// Turns a query's raw scores, of which those from `first` to `last` are visible, into exp(scale * score - shift), and
// all others among `computed` into zeros; returns the sum.
OF_INLINE float ExpRow(float* row, int64_t first, int64_t last, int64_t computed, float scale, float shift) {
  constexpr float kLog2OfE = 1.44269504f;  // not within scale and shift, whose difference may be small beside them
  F32s sum = Splat(0);
  VecLoop(last - first, [&](int64_t i, auto lanes) {
    const F32s e = Keep(Exp2<5>((Load(row + first + i) * scale - shift) * kLog2OfE), lanes);
    sum += e;
    Store(row + first + i, e);
  });
  std::fill(row, row + first, 0.0f);
  for (int64_t i = first + (last - first + kLanes - 1) / kLanes * kLanes; i < computed; i += kLanes) {
    Store(row + i, Splat(0));
  }
  return Sum(sum);
}

// A query's raw scores become probabilities times their sum, dropped ones zeros. Gives what lse is beside the
// logarithm of that sum, and the sum. `kept` has room for a row.
OF_INLINE std::pair<float, float> SoftmaxRow(const Shape& s, const ScoreRows& scores, int64_t query,
                                             const QueryBlock& block, float* row, float* kept) {
  const auto [first, last] = block.Visible(s, query);
  const int64_t n = last - first;
  float* const visible = row + first;
  if (scores.transforms()) scores.Transform(query, block.from + first, n, visible, nullptr);
  const float max = n == 0 ? -INFINITY : MaxOfRow(visible, n) * scores.factor();
  const float sum = ExpRow(row, first, last, block.computed, scores.factor(), max == -INFINITY ? 0 : max);
  if (scores.drops()) {
    scores.Draw(query, block.from + first, n, kept);
    VecLoop(
        n, [&](int64_t i, auto lanes) { Store(visible + i, Load(visible + i, lanes) * Load(kept + i, lanes), lanes); });
  }
  return {max, sum};
}

// A head's k and v as the products need them.
struct PackedKeys {
  float *kt, *v;
};

template <bool kPairs, typename T>
void ForwardHead(const Shape& s, const ScoreRows& rows, const T* q, const T* k, const T* v, T* out, float* lse,
                 const PackedKeys& packed, const Ahead& ahead, float* scratch) {
  const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
  float* const scores = take(kQueries * s.stride);
  float* const kept = take(s.beside());
  float* packed_q = nullptr;
  if constexpr (Half<T> && !kPairs) {
    packed_q = take(s.tokens * s.d);
    PackHead<false>(OfQueries(s, q), s.d, packed_q);
  }
  for (int64_t begin = 0; begin < s.tokens; begin += kQueries) {
    const QueryBlock block(s, rows, begin);
    SmallGemm<false, kPairs>(block.rows(), block.computed, Steps<kPairs>(s.d), RowsFrom<kPairs>(s, q, packed_q, begin),
                             packed.kt + block.from, s.stride, scores, s.stride, block.OfScores());
    alignas(64) float max[kQueries], sum[kQueries], inverse[kQueries];
    for (int64_t i = 0; i < block.rows(); ++i) {
      float* const row = scores + i * s.stride;
      std::tie(max[i], sum[i]) = SoftmaxRow(s, rows, begin + i, block, row, kept);
      RoundRow<kPairs>(row, block.computed);
      ahead.Ask<T>(s, begin + i, {q}, {out}, {k, v}, {});
    }
    VecLoop(block.rows(), [&](int64_t i, auto lanes) {
      const F32s sums = Load(sum + i, lanes, 1.0f);
      Store(lse + begin + i, Load(max + i, lanes) + LogOfSums(sums), lanes);
      Store(inverse + i, sums == 0 ? Splat(0) : 1.0f / sums, lanes);
    });
    T* const to = out + begin * s.columns;
    const QueryRows<T> sums(s, to, scratch);
    SmallGemm<false, kPairs>(block.rows(), s.d, Steps<kPairs>(block.keys), {scores, s.stride, 1},
                             packed.v + Steps<kPairs>(block.from) * s.d, s.d, sums.data, sums.stride, block.OfRows());
    for (int64_t i = 0; i < block.rows(); ++i) {
      VecLoop(s.d, [&](int64_t c, auto lanes) {
        Store(to + i * s.columns + c, Load(sums.data + i * sums.stride + c, lanes) * inverse[i], lanes);
      });
    }
  }
}

// Of either way to multiply.
template <typename T>
size_t ForwardScratch(const Shape& s) {
  const int64_t narrow = Half<T> ? (s.tokens + kQueries) * s.d : 0;
  const int64_t of_scores = (s.d + kQueries) * s.stride + s.beside();
  return static_cast<size_t>(of_scores + (s.keys + 1) * s.d + narrow + kLine) / kLine * kLine;
}

// A query's row of raw scores becomes P, dropped, that of dP becomes dS. `beside` has room for two rows.
template <typename T>
void SoftmaxGradient(const Shape& s, const ScoreRows& scores, const AttentionHead<T>& h, int64_t query,
                     const QueryBlock& block, float* p, float* ds, float* beside) {
  const auto [first, last] = block.Visible(s, query);
  float *const kept = beside, *const slopes = beside + s.stride;
  if (scores.transforms()) scores.Transform(query, block.from, last, p, slopes);
  const float lse = h.lse[query];
  ExpRow(p, first, last, block.computed, scores.factor(), lse == -INFINITY ? 0 : lse);
  const F32s mean = Splat(MeanOfGradients(s, h, query));
  int64_t j = 0;
  if (scores.are_plain()) {
    for (; j < last; j += kLanes) Store(ds + j, Load(p + j) * (Load(ds + j) - mean) * s.scale);
  } else {
    if (scores.drops()) scores.Draw(query, block.from, last, kept);
    VecLoop(last, [&](int64_t i, auto lanes) {
      const F32s share = scores.drops() ? Load(kept + i, lanes) : Splat(1);
      const F32s slope = scores.transforms() ? Load(slopes + i, lanes) : Splat(1), weight = Load(p + i, lanes);
      Store(ds + i, weight * (Load(ds + i, lanes) * share - mean) * slope * s.scale, lanes);
      Store(p + i, weight * share, lanes);
    });
    j = last;
  }
  std::fill(ds + j, ds + block.computed, 0.0f);
}

// What the heads of a group share in the backward pass: k and v as products need them, and the sums of dk and dv.
struct GroupKeys {
  float *kt, *vt, *k, *dk, *dv;
};

// Adds a head's part to the sums of its group, and writes its dq.
template <bool kPairs, typename T>
void BackwardHead(const Shape& s, const ScoreRows& scores, const AttentionHead<T>& h, const GroupKeys& g,
                  const Ahead& ahead, float* scratch) {
  const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
  float* const beside = take(s.beside());
  float* const p = take(kQueries * s.stride);
  float* const ds = take(kQueries * s.stride);
  float* const pairs = kPairs ? take(kQueries / 2 * s.stride) : nullptr;  // of P, then of dS
  const int64_t size = Steps<kPairs>(s.tokens) * s.d;
  float* const q = take(size);
  float* const dout = take(size);
  PackHead<kPairs>(OfQueries(s, h.q), s.d, q);
  PackHead<kPairs>(OfQueries(s, h.dout), s.d, dout);
  for (int64_t begin = 0; begin < s.tokens; begin += kQueries) {
    const QueryBlock block(s, scores, begin);
    const int64_t rows = block.rows(), at = Steps<kPairs>(begin) * s.d, along_d = Steps<kPairs>(s.d);
    const int64_t keys_at = Steps<kPairs>(block.from) * s.d;  // of k in steps along the keys
    SmallGemm<false, kPairs>(rows, block.computed, along_d, RowsFrom<kPairs>(s, h.q, q, begin), g.kt + block.from,
                             s.stride, p, s.stride, block.OfScores());
    SmallGemm<false, kPairs>(rows, block.computed, along_d, RowsFrom<kPairs>(s, h.dout, dout, begin), g.vt + block.from,
                             s.stride, ds, s.stride, block.OfScores());
    for (int64_t i = 0; i < rows; ++i) {
      SoftmaxGradient(s, scores, h, begin + i, block, p + i * s.stride, ds + i * s.stride, beside);
      ahead.Ask<T>(s, begin + i, {h.q, h.dout, h.out}, {h.dq}, {h.k, h.v}, {h.dk, h.dv});
    }
    const Strided by_query = {AlongQueries<kPairs>(s, rows, block.computed, p, pairs), 1, s.stride};
    SmallGemm<true, kPairs>(block.keys, s.d, Steps<kPairs>(rows), by_query, dout + at, s.d, g.dv + block.from * s.d,
                            s.d, block.OfColumns());
    const Strided gradient_by_query = {AlongQueries<kPairs>(s, rows, block.computed, ds, pairs), 1, s.stride};
    SmallGemm<true, kPairs>(block.keys, s.d, Steps<kPairs>(rows), gradient_by_query, q + at, s.d,
                            g.dk + block.from * s.d, s.d, block.OfColumns());
    for (int64_t i = 0; i < rows; ++i) RoundRow<kPairs>(ds + i * s.stride, block.computed);
    T* const to = h.dq + begin * s.columns;
    const QueryRows<T> sums(s, to, scratch);
    SmallGemm<false, kPairs>(rows, s.d, Steps<kPairs>(block.keys), {ds, s.stride, 1}, g.k + keys_at, s.d, sums.data,
                             sums.stride, block.OfRows());
    if constexpr (Half<T>) {
      for (int64_t i = 0; i < rows; ++i) {
        VecLoop(s.d, [&](int64_t c, auto lanes) {
          Store(to + i * s.columns + c, Load(sums.data + i * sums.stride + c, lanes), lanes);
        });
      }
    }
  }
}

// The heads from `first` on that share a head of k and v; a thread computes those before `end`.
template <bool kPairs, typename T>
void BackwardGroup(const KernelArgs& args, const Shape& s, int64_t first, int64_t end, float* scratch) {
  const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
  const AttentionHead<T> shared = GradientHead<T>(args, s, s.scores.dlse, first);
  GroupKeys g = {.kt = take(Steps<kPairs>(s.d) * s.stride), .vt = take(Steps<kPairs>(s.d) * s.stride)};
  g.k = take(Steps<kPairs>(s.keys) * s.d);
  g.dk = take(s.keys * s.d);
  g.dv = take(s.keys * s.d);
  TransposeHead<kPairs>(s, shared.k, g.kt);
  TransposeHead<kPairs>(s, shared.v, g.vt);
  PackHead<kPairs>(OfKeys(s, shared.k), s.d, g.k);
  std::fill(g.dk, g.dk + s.keys * s.d, 0.0f);
  std::fill(g.dv, g.dv + s.keys * s.d, 0.0f);
  for (int64_t head = first; head < first + s.group; ++head) {
    if (!s.Sees(head)) continue;
    BackwardHead<kPairs>(s, ScoreRows(s.scores, s, args, head), GradientHead<T>(args, s, s.scores.dlse, head), g,
                         Ahead(s, head, end), scratch);
  }
  UnpackHead(g.dk, s.d, OfKeys(s, shared.dk));
  UnpackHead(g.dv, s.d, OfKeys(s, shared.dv));
}

// Of either way to multiply.
template <typename T>
size_t BackwardScratch(const Shape& s) {
  const int64_t narrow = Half<T> ? kQueries / 2 * s.stride + kQueries * s.d : 0;
  const int64_t rows = 3 * s.keys + 2 * s.tokens + 3;  // those packed in pairs are rounded up
  const int64_t of_scores = (2 * s.d + 2 * kQueries) * s.stride + s.beside();
  return static_cast<size_t>(of_scores + rows * s.d + narrow + kLine) / kLine * kLine;
}

// body.operator()<kPairs>(): pairs where the processor multiplies such and a head has whole ones.
template <typename T, typename Body>
void InSteps(const Shape& s, const Body& body) {
  if constexpr (kMultipliesPairs && std::is_same_v<T, BFloat16>) {
    if (s.d % 2 == 0) return body.template operator()<true>();
  }
  body.template operator()<false>();
}

template <typename T>
bool MayGoByTiles(const Shape& s) {
  return std::is_same_v<T, BFloat16> && s.scores.are_plain() && SuitsTiles(s);
}
// Tiles know masks that begin in the corner, and whole groups of heads.
template <typename T>
bool GoesByTiles(const Shape& s) {
  const bool from_corner = !s.causal || (s.behind == 0 && s.tokens == s.keys);
  return MayGoByTiles<T>(s) && from_corner && s.first_head % s.group == 0 && s.end_head % s.group == 0;
}

void SetZero(const TensorArg& x) { std::memset(x.data, 0, static_cast<size_t>(x.count) * SizeOf(x.dtype)); }

// What queries have that see no key.
void SetBlind(const KernelArgs& args) {
  SetZero(args.out[0]);
  std::fill(args.out[1].as<float>(), args.out[1].as<float>() + args.out[1].count, -INFINITY);
}

void SetZero(absl::Span<const TensorArg> gradients) {
  for (const TensorArg& gradient : gradients) SetZero(gradient);
}

// in: q, k, v and documents; out: out, lse[b,n,t]. A thread packs k and v once for the heads that share them.
template <typename T>
const char* Attention(const KernelArgs& args) {
  const Shape s(args, 0);
  if (s.is_blind() || !s.all_heads_see()) SetBlind(args);
  if (s.is_blind()) return nullptr;
  if (GoesByTiles<T>(s)) return AttentionOnTiles(args);
  const T *const q = args.in[0].as<const T>(), *const k = args.in[1].as<const T>(), *const v = args.in[2].as<const T>();
  T* const out = args.out[0].as<T>();
  float* const lse = args.out[1].as<float>();
  const int64_t heads = s.end_head - s.first_head;  // of a sample
  ParallelForThread(s.batch * heads, 1, args.threads, [&](int64_t begin, int64_t end, int thread) {
    float* const scratch = static_cast<float*>(args.workspace) + thread * ForwardScratch<T>(s);
    InSteps<T>(s, [&]<bool kPairs>() {
      const PackedKeys packed = {scratch, scratch + Steps<kPairs>(s.d) * s.stride};
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / heads * s.heads + s.first_head + task % heads;
        const int64_t at = s.HeadAt(head), kv_at = s.KvHeadAt(head / s.group);
        if (task == begin || head % s.group == 0 || task % heads == 0) {
          TransposeHead<kPairs>(s, k + kv_at, packed.kt);
          PackHead<kPairs>(OfKeys(s, v + kv_at), s.d, packed.v);
        }
        const Ahead ahead(s, head, task + 1 < end ? head + 2 : head + 1);
        ForwardHead<kPairs>(s, ScoreRows(s.scores, s, args, head), q + at, k + kv_at, v + kv_at, out + at,
                            lse + head * s.tokens, packed, ahead, packed.v + Steps<kPairs>(s.keys) * s.d);
      }
    });
  });
  return nullptr;
}

// in: dout, q, k, v, out, lse, documents and dlse; out: dq, dk, dv. The heads of a group are one task, so that their
// sums have one order.
template <typename T>
const char* AttentionGrad(const KernelArgs& args) {
  const Shape s(args, 1);
  if (s.is_blind() || !s.all_heads_see()) SetZero(args.out);
  if (s.is_blind()) return nullptr;
  if (GoesByTiles<T>(s)) return AttentionGradOnTiles(args);
  const int64_t groups = s.end_group() - s.first_group();  // of a sample
  ParallelForThread(s.batch * groups, 1, args.threads, [&](int64_t begin, int64_t end, int thread) {
    float* const scratch = static_cast<float*>(args.workspace) + thread * BackwardScratch<T>(s);
    InSteps<T>(s, [&]<bool kPairs>() {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / groups * s.kv_heads + s.first_group() + task % groups;
        BackwardGroup<kPairs, T>(args, s, group * s.group, (group + (task + 1 < end ? 2 : 1)) * s.group, scratch);
      }
    });
  });
  return nullptr;
}

// Of the op, or of its gradient. A plan asks before it is known which part of a sample is where.
template <typename T, bool kGrad>
size_t Workspace(const KernelArgs& args) {
  const Shape s(args, kGrad);
  size_t of_tiles = 0, of_others = 0;
  if (MayGoByTiles<T>(s)) of_tiles = kGrad ? BackwardTileScratch(s) : ForwardTileScratch(s);
  if (of_tiles == 0 || (s.is_part && s.has_mask)) {
    of_others = (kGrad ? BackwardScratch<T>(s) : ForwardScratch<T>(s)) * sizeof(float);
  }
  return args.threads * std::max(of_tiles, of_others);
}

template <typename T>
void List(DType dtype, KernelList& kernels) {
  kernels.push_back({"attention", dtype, Attention<T>, Workspace<T, false>});
  kernels.push_back({"attention_grad", dtype, AttentionGrad<T>, Workspace<T, true>});
}

}  // namespace

KernelList AttentionKernels() {
  KernelList kernels;
  List<float>(DType::kFloat32, kernels);
  List<BFloat16>(DType::kBFloat16, kernels);
  List<Float16>(DType::kFloat16, kernels);
  return kernels;
}

}  // namespace oneflow::cpu
