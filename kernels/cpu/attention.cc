// Scaled dot-product attention and its gradient, per (batch, head), panel of 128 keys and block of 32 queries: scores
// of a block against the keys of a panel stay in the first two levels of cache and are never written to memory, and a
// panel's keys and values, packed once, stay there while all queries pass.
//
//   forward   S = scale Q K^T,  lse_i = log sum_j exp(S_ij),  P = exp(S - lse),  out = P V
//   backward  P again from lse;  dP = dout V^T,  D_i = dout_i . out_i - dlse_i,  dS = scale P (dP - D)
//             dV += P^T dout,  dK += dS^T Q,  dQ += dS K
//
// Forward, a query's largest score may grow from panel to panel: what is there of its sum and of out is then scaled
// down, as in Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), section 3. Sums of long
// samples are thus those of panels, one after another.
//
// Scores that are capped, hidden between documents or dropped (score_rows.h) pass through rows beside these. With a
// mask M out = M P V, dS = scale slope P (M dP - D), dV += (M P)^T dout. A query that sees no key has out = 0, lse =
// -inf.
//
// A causal block reads keys up to its last query only, those of a window from its first query's on, and of those no
// tile that no query of it sees. One task is one head of one sample, or, backward, the heads that share keys and
// values; it runs its panels and blocks in order, so sums do not depend on the number of threads. Heads are columns of
// the [b,t,c] tensors: head h has columns h*d .. (h+1)*d. Everything between reading q, k, v, dout and writing out, dq,
// dk, dv is computed on floats; but where the processor multiplies pairs of bf16 (small_gemm.h), products of bf16 read
// q, k, v and dout as they are and P and dS rounded. S, the softmax and all sums are floats. Where the processor has
// tiles, heads of bf16 are computed as tile_attention.h says.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/cpu/attention_panels.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_attention.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

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

// What a query's softmax is so far: the largest score, and the sum of exp(score - largest).
struct RunningSoftmax {
  float max = -INFINITY, sum = 0;
};

// A query's raw scores become exp(score - largest so far), dropped ones zeros. Gives what the query's sums so far are
// to be multiplied by. `kept` has room for a row.
OF_INLINE float SoftmaxRow(const PanelShape& s, const ScoreRows& scores, int64_t query, const QueryBlock& block,
                           RunningSoftmax& so_far, float* row, float* kept) {
  const auto [first, last] = block.Visible(s, query);
  const int64_t n = last - first;
  float* const visible = row + first;
  if (scores.transforms()) scores.Transform(query, block.from + first, n, visible, nullptr);
  const float seen = n == 0 ? -INFINITY : MaxOfRow(visible, n) * scores.factor();
  const float max = std::max(so_far.max, seen);
  const float sum = ExpRow(row, first, last, block.computed, scores.factor(), max == -INFINITY ? 0 : max);
  if (scores.drops()) {
    scores.Draw(query, block.from + first, n, kept);
    VecLoop(
        n, [&](int64_t i, auto lanes) { Store(visible + i, Load(visible + i, lanes) * Load(kept + i, lanes), lanes); });
  }
  const float rescale = so_far.max == max ? 1 : std::exp(so_far.max - max);
  so_far = {max, so_far.sum * rescale + sum};
  return rescale;
}

// A panel of a head's k and v as the products need them, and whose it is.
template <bool kPairs, typename T>
struct PackedKeys {
  void Pack(const PanelShape& s, const T* k, const T* v, int64_t panel) {
    if (packed == k + panel * s.kv_columns) return;
    packed = k + panel * s.kv_columns;
    TransposeHead<kPairs>(OfPanel(s, k, panel), s.d, kt, s.stride);
    PackHead<kPairs>(OfPanel(s, v, panel), s.d, values);
  }
  float *kt, *values;
  const T* packed = nullptr;
};

template <bool kPairs, typename T>
void ForwardHead(const PanelShape& s, const ScoreRows& rows, const T* q, const T* k, const T* v, T* out, float* lse,
                 PackedKeys<kPairs, T>& packed, const Ahead& ahead, float* scratch) {
  const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
  KeyRange* const ranges = reinterpret_cast<KeyRange*>(take(RangeFloats(s)));
  RunningSoftmax* const softmax = reinterpret_cast<RunningSoftmax*>(take(2 * s.tokens));
  float* const scores = take(kQueries * s.stride);
  float* const kept = take(s.beside());
  float* packed_q = nullptr;
  if constexpr (Half<T> && !kPairs) {
    packed_q = take(s.tokens * s.d);
    PackHead<false>(OfQueries(s, q), s.d, packed_q);
  }
  const auto pack = [&](int64_t panel) { packed.Pack(s, k, v, panel); };
  ForPanels(s, rows, ranges, pack, [&](const QueryBlock& block) {
    const int64_t begin = block.begin;
    if (block.is_first) std::fill(softmax + begin, softmax + block.end, RunningSoftmax());
    SmallGemm<false, kPairs>(block.rows(), block.computed, Steps<kPairs>(s.d), RowsFrom<kPairs>(s, q, packed_q, begin),
                             packed.kt + block.in_panel, s.stride, scores, s.stride, block.OfScores());
    const QueryRows<T> sums(s, out, scratch, begin);
    for (int64_t i = 0; i < block.rows(); ++i) {
      float *const row = scores + i * s.stride, *const to = sums.data + i * sums.stride;
      const float rescale = SoftmaxRow(s, rows, begin + i, block, softmax[begin + i], row, kept);
      if (rescale != 1 && !block.is_first) {
        VecLoop(s.d, [&](int64_t c, auto lanes) { Store(to + c, Load(to + c, lanes) * rescale, lanes); });
      }
      RoundRow<kPairs>(row, block.computed);
      if (block.is_last) ahead.Ask<T>(s, begin + i, {q}, {out}, {k, v}, {});
    }
    const auto multiply = [&]<bool kAdd>() {
      SmallGemm<kAdd, kPairs>(block.rows(), s.d, Steps<kPairs>(block.keys), {scores, s.stride, 1},
                              packed.values + Steps<kPairs>(block.in_panel) * s.d, s.d, sums.data, sums.stride,
                              block.OfRows());
    };
    block.is_first ? multiply.template operator()<false>() : multiply.template operator()<true>();
    if (!block.is_last) return;
    for (int64_t i = 0; i < block.rows(); ++i) {
      const RunningSoftmax& of = softmax[begin + i];
      const float inverse = of.sum == 0 ? 0 : 1 / of.sum;
      lse[begin + i] = of.max + LogOfSums(Splat(of.sum))[0];
      VecLoop(s.d, [&](int64_t c, auto lanes) {
        Store(out + (begin + i) * s.columns + c, Load(sums.data + i * sums.stride + c, lanes) * inverse, lanes);
      });
    }
  });
}

// Of either way to multiply.
template <typename T>
size_t ForwardScratch(const PanelShape& s) {
  const int64_t narrow = Half<T> ? 2 * s.tokens * s.d : 0;
  const int64_t of_scores = (s.d + kQueries) * s.stride + s.beside();
  const int64_t of_panel = (s.KeysFrom(0) + 1) * s.d, of_queries = RangeFloats(s) + 2 * s.tokens;
  return static_cast<size_t>(of_scores + of_panel + of_queries + narrow + kLine) / kLine * kLine;
}

// A query's row of raw scores becomes P, dropped, that of dP becomes dS. `beside` has room for two rows.
template <typename T>
void SoftmaxGradient(const PanelShape& s, const ScoreRows& scores, const AttentionHead<T>& h, int64_t query,
                     const QueryBlock& block, float mean_of_gradients, float* p, float* ds, float* beside) {
  const auto [first, last] = block.Visible(s, query);
  float *const kept = beside, *const slopes = beside + s.stride;
  if (scores.transforms()) scores.Transform(query, block.from, last, p, slopes);
  const float lse = h.lse[query];
  ExpRow(p, first, last, block.computed, scores.factor(), lse == -INFINITY ? 0 : lse);
  const F32s mean = Splat(mean_of_gradients);
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

// What the heads of a group share in the backward pass: k and v of a panel as products need them, and whose that is;
// the sums of dk and dv.
template <bool kPairs, typename T>
struct GroupKeys {
  void Pack(const PanelShape& s, const AttentionHead<T>& h, int64_t panel) {
    if (packed == h.k + panel * s.kv_columns) return;
    packed = h.k + panel * s.kv_columns;
    TransposeHead<kPairs>(OfPanel(s, h.k, panel), s.d, kt, s.stride);
    TransposeHead<kPairs>(OfPanel(s, h.v, panel), s.d, vt, s.stride);
    PackHead<kPairs>(OfPanel(s, h.k, panel), s.d, k);
  }
  float *kt, *vt, *k, *dk, *dv;
  const T* packed = nullptr;
};

// Adds a head's part to the sums of its group, and writes its dq.
template <bool kPairs, typename T>
void BackwardHead(const PanelShape& s, const ScoreRows& scores, const AttentionHead<T>& h, GroupKeys<kPairs, T>& g,
                  const Ahead& ahead, float* scratch) {
  const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
  KeyRange* const ranges = reinterpret_cast<KeyRange*>(take(RangeFloats(s)));
  float* const means = take(s.tokens);
  float* const beside = take(s.beside());
  float* const p = take(kQueries * s.stride);
  float* const ds = take(kQueries * s.stride);
  float* const pairs = kPairs ? take(kQueries / 2 * s.stride) : nullptr;  // of P, then of dS
  const int64_t size = Steps<kPairs>(s.tokens) * s.d;
  float* const q = take(size);
  float* const dout = take(size);
  PackHead<kPairs>(OfQueries(s, h.q), s.d, q);
  PackHead<kPairs>(OfQueries(s, h.dout), s.d, dout);
  const auto pack = [&](int64_t panel) { g.Pack(s, h, panel); };
  ForPanels(s, scores, ranges, pack, [&](const QueryBlock& block) {
    const int64_t begin = block.begin, rows = block.rows();
    const int64_t at = Steps<kPairs>(begin) * s.d, along_d = Steps<kPairs>(s.d);
    SmallGemm<false, kPairs>(rows, block.computed, along_d, RowsFrom<kPairs>(s, h.q, q, begin), g.kt + block.in_panel,
                             s.stride, p, s.stride, block.OfScores());
    SmallGemm<false, kPairs>(rows, block.computed, along_d, RowsFrom<kPairs>(s, h.dout, dout, begin),
                             g.vt + block.in_panel, s.stride, ds, s.stride, block.OfScores());
    for (int64_t i = 0; i < rows; ++i) {
      float& mean = means[begin + i];
      if (block.is_first) mean = MeanOfGradients(s, h, begin + i);
      SoftmaxGradient(s, scores, h, begin + i, block, mean, p + i * s.stride, ds + i * s.stride, beside);
      if (block.is_last) ahead.Ask<T>(s, begin + i, {h.q, h.dout, h.out}, {h.dq}, {h.k, h.v}, {h.dk, h.dv});
    }
    const Strided by_query = {AlongQueries<kPairs>(s, rows, block.computed, p, pairs), 1, s.stride};
    SmallGemm<true, kPairs>(block.keys, s.d, Steps<kPairs>(rows), by_query, dout + at, s.d, g.dv + block.from * s.d,
                            s.d, block.OfColumns());
    const Strided gradient_by_query = {AlongQueries<kPairs>(s, rows, block.computed, ds, pairs), 1, s.stride};
    SmallGemm<true, kPairs>(block.keys, s.d, Steps<kPairs>(rows), gradient_by_query, q + at, s.d,
                            g.dk + block.from * s.d, s.d, block.OfColumns());
    for (int64_t i = 0; i < rows; ++i) RoundRow<kPairs>(ds + i * s.stride, block.computed);
    const QueryRows<T> sums(s, h.dq, scratch, begin);
    const auto multiply = [&]<bool kAdd>() {
      SmallGemm<kAdd, kPairs>(rows, s.d, Steps<kPairs>(block.keys), {ds, s.stride, 1},
                              g.k + Steps<kPairs>(block.in_panel) * s.d, s.d, sums.data, sums.stride, block.OfRows());
    };
    block.is_first ? multiply.template operator()<false>() : multiply.template operator()<true>();
    if constexpr (Half<T>) {
      if (!block.is_last) return;
      UnpackHead(sums.data, s.d, HeadRows<T>{h.dq + begin * s.columns, rows, s.columns});
    }
  });
}

// The heads from `first` on that share a head of k and v; a thread computes those before `end`.
template <bool kPairs, typename T>
void BackwardGroup(const KernelArgs& args, const PanelShape& s, int64_t first, int64_t end, float* scratch) {
  const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
  const AttentionHead<T> shared = GradientHead<T>(args, s, s.scores.dlse, first);
  GroupKeys<kPairs, T> g = {.kt = take(Steps<kPairs>(s.d) * s.stride), .vt = take(Steps<kPairs>(s.d) * s.stride)};
  g.k = take(Steps<kPairs>(s.KeysFrom(0)) * s.d);
  g.dk = take(s.keys * s.d);
  g.dv = take(s.keys * s.d);
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
size_t BackwardScratch(const PanelShape& s) {
  const int64_t narrow = Half<T> ? kQueries / 2 * s.stride + s.tokens * s.d : 0;
  const int64_t rows = 2 * s.keys + s.KeysFrom(0) + 2 * s.tokens + 3;  // those packed in pairs are rounded up
  const int64_t of_scores = (2 * s.d + 2 * kQueries) * s.stride + s.beside();
  const int64_t of_queries = RangeFloats(s) + s.tokens;
  return static_cast<size_t>(of_scores + rows * s.d + of_queries + narrow + kLine) / kLine * kLine;
}

// body.operator()<kPairs>(): pairs where the processor multiplies such and a head has whole ones.
template <typename T, typename Body>
void InSteps(const PanelShape& s, const Body& body) {
  if constexpr (kMultipliesPairs && std::is_same_v<T, BFloat16>) {
    if (s.d % 2 == 0) return body.template operator()<true>();
  }
  body.template operator()<false>();
}

template <typename T>
bool MayGoByTiles(const PanelShape& s) {
  return std::is_same_v<T, BFloat16> && s.scores.are_plain() && SuitsTiles(s);
}
// Tiles know masks that begin in the corner, and whole groups of heads.
template <typename T>
bool GoesByTiles(const PanelShape& s) {
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

// in: q, k, v and documents; out: out, lse[b,n,t]. A thread packs k and v once for the heads that share them, where
// all keys are one panel.
template <typename T>
const char* Attention(const KernelArgs& args) {
  const PanelShape s(args, 0);
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
      PackedKeys<kPairs, T> packed = {scratch, scratch + Steps<kPairs>(s.d) * s.stride};
      float* const rest = packed.values + Steps<kPairs>(s.KeysFrom(0)) * s.d;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / heads * s.heads + s.first_head + task % heads;
        const int64_t at = s.HeadAt(head), kv_at = s.KvHeadAt(head / s.group);
        const Ahead ahead(s, head, task + 1 < end ? head + 2 : head + 1);
        ForwardHead<kPairs>(s, ScoreRows(s.scores, s, args, head), q + at, k + kv_at, v + kv_at, out + at,
                            lse + head * s.tokens, packed, ahead, rest);
      }
    });
  });
  return nullptr;
}

// in: dout, q, k, v, out, lse, documents and dlse; out: dq, dk, dv. The heads of a group are one task, so that their
// sums have one order.
template <typename T>
const char* AttentionGrad(const KernelArgs& args) {
  const PanelShape s(args, 1);
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
  const PanelShape s(args, kGrad);
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
