// Scaled dot-product attention and its gradient, per (batch, head) and block of 32 queries: all scores of a block
// against the keys it may see stay in the second-level cache and are never written to memory.
//
//   forward   S = Q K^T / sqrt(d),  lse_i = log sum_j exp(S_ij),  P = exp(S - lse),  out = P V
//   backward  P again from lse;  dP = dout V^T,  D_i = dout_i . out_i,  dS = P (dP - D) / sqrt(d)
//             dV += P^T dout,  dK += dS^T Q,  dQ = dS K
//
// A causal block reads keys up to its last query only, and of those no tile that no query of it sees. One task is one
// head of one sample and runs its blocks in order, so sums do not depend on the number of threads. Heads are columns of
// the [b,t,c] tensors: head h has columns h*d .. (h+1)*d. Everything between reading q, k, v, dout and writing out, dq,
// dk, dv is computed on floats; but where the processor multiplies pairs of bf16 (small_gemm.h), products of bf16 read
// q, k, v and dout as they are and P and dS rounded. S, the softmax and all sums are floats. Where the processor has
// tiles, heads of bf16 are computed as tile_attention.h says.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/attention_head.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/small_gemm.h"
#include "kernels/cpu/tile_attention.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kQueries = 32;  // per block: at 128 keys scores take 16 KiB, and a causal half wastes little

struct Shape : AttentionShape {
  Shape(const TensorArg& q, const AttrMap& attrs) : AttentionShape(q, attrs) {
    // Rows of scores: whole vectors, and one more so that a power of two does not put all rows into the same cache set.
    padded = (tokens + kLine - 1) / kLine * kLine;
    stride = padded + kLine;
  }
  int64_t padded, stride;
  // Keys that the block of queries ending at `end` computes.
  int64_t Computed(int64_t end) const { return causal ? std::min(padded, (end + kLine - 1) / kLine * kLine) : padded; }
  // Of a block of queries from `begin` on: products that give scores, read rows of them, or read columns of them.
  Triangle OfScores(int64_t begin) const { return causal ? Triangle{.columns_to = begin} : Triangle{}; }
  Triangle OfRows(int64_t begin) const { return causal ? Triangle{.k_to = begin} : Triangle{}; }
  Triangle OfColumns(int64_t begin) const { return causal ? Triangle{.k_from = begin} : Triangle{}; }
};

// Two rows of bf16 as pairs of neighbours in a column.
OF_INLINE F32s Interleave(F32s first, F32s second) { return (F32s)((U32s)first >> 16 | (U32s)second); }

// to = the [tokens, d] head in steps along the tokens, dense: rows that lie 4 KiB / 2^n apart would share a few sets of
// the first-level cache.
template <bool kPairs, typename T>
void PackHead(const Shape& s, const T* from, float* to) {
  for (int64_t i = 0; i < Steps<kPairs>(s.tokens); ++i) {
    VecLoop(s.d, [&](int64_t c, auto lanes) {
      if constexpr (kPairs) {
        const T* const row = from + 2 * i * s.columns + c;
        const bool has_second = 2 * i + 1 < s.tokens;
        Store(to + i * s.d + c, Interleave(Load(row, lanes), has_second ? Load(row + s.columns, lanes) : F32s{}),
              lanes);
      } else {
        Store(to + i * s.d + c, Load(from + i * s.columns + c, lanes), lanes);
      }
    });
  }
}
template <typename T>
void UnpackHead(const Shape& s, const float* from, T* to) {
  for (int64_t i = 0; i < s.tokens; ++i) {
    VecLoop(s.d, [&](int64_t c, auto lanes) { Store(to + i * s.columns + c, Load(from + i * s.d + c, lanes), lanes); });
  }
}

// to[column][row] = from[row][column] for rows of floats, or of pairs in their place, `stride` apart; columns behind
// the last token are zero.
template <typename T>
void TransposeRows(const Shape& s, const T* from, int64_t stride, int64_t width, float* to) {
  for (int64_t row0 = 0; row0 < s.padded; row0 += kLanes) {
    const int64_t rows = std::min(kLanes, s.tokens - row0);
    VecLoop(width, [&](int64_t column0, auto lanes) {
      F32s tile[kLanes] = {};
      for (int64_t i = 0; i < rows; ++i) tile[i] = Load(from + (row0 + i) * stride + column0, lanes);
      Transpose(tile);
      const int64_t columns = std::min(kLanes, width - column0);
      for (int64_t i = 0; i < columns; ++i) Store(to + (column0 + i) * s.stride + row0, tile[i]);
    });
  }
}

// to[step][row] = a [tokens, d] head in steps along d.
template <bool kPairs, typename T>
void TransposeHead(const Shape& s, const T* from, float* to) {
  if constexpr (kPairs) {
    TransposeRows(s, reinterpret_cast<const float*>(from), s.columns / 2, s.d / 2, to);
  } else {
    TransposeRows(s, from, s.columns, s.d, to);
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

// Turns a row of raw scores into exp(scale * score - shift), zero where the query must not look; returns the sum.
OF_INLINE float ExpRow(float* row, int64_t visible, int64_t computed, float scale, float shift) {
  constexpr float kLog2OfE = 1.44269504f;  // not within scale and shift, whose difference may be small beside them
  F32s sum = Splat(0);
  VecLoop(visible, [&](int64_t i, auto lanes) {
    const F32s e = Keep(Exp2<5>((Load(row + i) * scale - shift) * kLog2OfE), lanes);
    sum += e;
    Store(row + i, e);
  });
  for (int64_t i = (visible + kLanes - 1) / kLanes * kLanes; i < computed; i += kLanes) Store(row + i, Splat(0));
  return Sum(sum);
}

// The head that comes next lies `ahead` elements behind this one; 0: none comes.
template <bool kPairs, typename T>
void ForwardHead(const Shape& s, const T* q, const T* k, const T* v, T* out, float* lse, int64_t ahead,
                 float* scratch) {
  const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
  float* const kt = take(Steps<kPairs>(s.d) * s.stride);
  float* const scores = take(kQueries * s.stride);
  float* const packed_v = take(Steps<kPairs>(s.tokens) * s.d);
  float* packed_q = nullptr;
  TransposeHead<kPairs>(s, k, kt);
  PackHead<kPairs>(s, v, packed_v);
  if constexpr (Half<T> && !kPairs) {
    packed_q = take(s.tokens * s.d);
    PackHead<false>(s, q, packed_q);
  }
  for (int64_t begin = 0; begin < s.tokens; begin += kQueries) {
    const int64_t end = std::min(s.tokens, begin + kQueries), rows = end - begin, computed = s.Computed(end);
    SmallGemm<false, kPairs>(rows, computed, Steps<kPairs>(s.d), RowsFrom<kPairs>(s, q, packed_q, begin), kt, s.stride,
                             scores, s.stride, s.OfScores(begin));
    alignas(64) float max[kQueries], sum[kQueries], inverse[kQueries];
    for (int64_t i = 0; i < rows; ++i) {
      float* const row = scores + i * s.stride;
      const int64_t visible = s.Visible(begin + i);
      max[i] = MaxOfRow(row, visible) * s.scale;
      sum[i] = ExpRow(row, visible, computed, s.scale, max[i]);
      RoundRow<kPairs>(row, computed);
      if (ahead == 0) continue;
      const int64_t next = ahead + (begin + i) * s.columns;
      for (const T* x : {q, k, v}) PrefetchHeadRow<0>(s, x + next);
      PrefetchHeadRow<1>(s, out + next);
    }
    VecLoop(rows, [&](int64_t i, auto lanes) {
      const F32s sums = Load(sum + i, lanes, 1.0f);
      Store(lse + begin + i, Load(max + i, lanes) + LogOfSums(sums), lanes);
      Store(inverse + i, 1.0f / sums, lanes);
    });
    T* const to = out + begin * s.columns;
    const QueryRows<T> sums(s, to, scratch);
    SmallGemm<false, kPairs>(rows, s.d, Steps<kPairs>(std::min(computed, s.tokens)), {scores, s.stride, 1}, packed_v,
                             s.d, sums.data, sums.stride, s.OfRows(begin));
    for (int64_t i = 0; i < rows; ++i) {
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
  return static_cast<size_t>((s.d + kQueries) * s.stride + s.tokens * s.d + narrow + kLine) / kLine * kLine;
}

// A query's row of raw scores becomes P, that of dP becomes dS.
template <typename T>
void SoftmaxGradient(const Shape& s, const AttentionHead<T>& h, int64_t query, int64_t computed, float* p, float* ds) {
  ExpRow(p, s.Visible(query), computed, s.scale, h.lse[query]);
  const T *const dout = h.dout + query * s.columns, *const out = h.out + query * s.columns;
  F32s dot = Splat(0);
  VecLoop(s.d, [&](int64_t c, auto lanes) { dot += Load(dout + c, lanes) * Load(out + c, lanes); });
  const F32s mean = Splat(Sum(dot));
  int64_t j = 0;
  for (; j < s.Visible(query); j += kLanes) Store(ds + j, Load(p + j) * (Load(ds + j) - mean) * s.scale);
  for (; j < computed; j += kLanes) Store(ds + j, Splat(0));
}

template <bool kPairs, typename T>
void BackwardHead(const Shape& s, const AttentionHead<T>& h, int64_t ahead, float* scratch) {
  const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
  float* const kt = take(Steps<kPairs>(s.d) * s.stride);
  float* const vt = take(Steps<kPairs>(s.d) * s.stride);
  float* const p = take(kQueries * s.stride);
  float* const ds = take(kQueries * s.stride);
  float* const pairs = kPairs ? take(kQueries / 2 * s.stride) : nullptr;  // of P, then of dS
  const int64_t size = Steps<kPairs>(s.tokens) * s.d;
  float* const q = take(size);
  float* const k = take(size);
  float* const dout = take(size);
  float* const dk = take(s.tokens * s.d);
  float* const dv = take(s.tokens * s.d);
  TransposeHead<kPairs>(s, h.k, kt);
  TransposeHead<kPairs>(s, h.v, vt);
  PackHead<kPairs>(s, h.q, q);
  PackHead<kPairs>(s, h.k, k);
  PackHead<kPairs>(s, h.dout, dout);
  std::fill(dk, dk + s.tokens * s.d, 0.0f);
  std::fill(dv, dv + s.tokens * s.d, 0.0f);
  for (int64_t begin = 0; begin < s.tokens; begin += kQueries) {
    const int64_t end = std::min(s.tokens, begin + kQueries), rows = end - begin, at = Steps<kPairs>(begin) * s.d;
    const int64_t computed = s.Computed(end), keys = std::min(computed, s.tokens), along_d = Steps<kPairs>(s.d);
    SmallGemm<false, kPairs>(rows, computed, along_d, RowsFrom<kPairs>(s, h.q, q, begin), kt, s.stride, p, s.stride,
                             s.OfScores(begin));
    SmallGemm<false, kPairs>(rows, computed, along_d, RowsFrom<kPairs>(s, h.dout, dout, begin), vt, s.stride, ds,
                             s.stride, s.OfScores(begin));
    for (int64_t i = 0; i < rows; ++i) {
      SoftmaxGradient(s, h, begin + i, computed, p + i * s.stride, ds + i * s.stride);
      if (ahead == 0) continue;
      const int64_t next = ahead + (begin + i) * s.columns;
      for (const T* x : {h.q, h.k, h.v, h.dout, h.out}) PrefetchHeadRow<0>(s, x + next);
      for (const T* x : {h.dq, h.dk, h.dv}) PrefetchHeadRow<1>(s, x + next);
    }
    const Strided by_query = {AlongQueries<kPairs>(s, rows, computed, p, pairs), 1, s.stride};
    SmallGemm<true, kPairs>(keys, s.d, Steps<kPairs>(rows), by_query, dout + at, s.d, dv, s.d, s.OfColumns(begin));
    const Strided gradient_by_query = {AlongQueries<kPairs>(s, rows, computed, ds, pairs), 1, s.stride};
    SmallGemm<true, kPairs>(keys, s.d, Steps<kPairs>(rows), gradient_by_query, q + at, s.d, dk, s.d,
                            s.OfColumns(begin));
    for (int64_t i = 0; i < rows; ++i) RoundRow<kPairs>(ds + i * s.stride, computed);
    T* const to = h.dq + begin * s.columns;
    const QueryRows<T> sums(s, to, scratch);
    SmallGemm<false, kPairs>(rows, s.d, Steps<kPairs>(keys), {ds, s.stride, 1}, k, s.d, sums.data, sums.stride,
                             s.OfRows(begin));
    if constexpr (Half<T>) {
      for (int64_t i = 0; i < rows; ++i) {
        VecLoop(s.d, [&](int64_t c, auto lanes) {
          Store(to + i * s.columns + c, Load(sums.data + i * sums.stride + c, lanes), lanes);
        });
      }
    }
  }
  UnpackHead(s, dk, h.dk);
  UnpackHead(s, dv, h.dv);
}

// Of either way to multiply.
template <typename T>
size_t BackwardScratch(const Shape& s) {
  const int64_t narrow = Half<T> ? kQueries / 2 * s.stride + kQueries * s.d : 0;
  return static_cast<size_t>((2 * s.d + 2 * kQueries) * s.stride + 5 * s.tokens * s.d + narrow + kLine) / kLine * kLine;
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
bool GoesByTiles(const AttentionShape& s) {
  return std::is_same_v<T, BFloat16> && SuitsTiles(s);
}

// in: q, k, v; out: out, lse[b,n,t].
template <typename T>
const char* Attention(const KernelArgs& args) {
  const Shape s(args.in[0], *args.attrs);
  if (GoesByTiles<T>(s)) return AttentionOnTiles(args);
  const auto forward = [&]<bool kPairs>(int64_t task, int64_t end, float* scratch) {
    const int64_t at = s.HeadAt(task);
    ForwardHead<kPairs>(s, args.in[0].as<const T>() + at, args.in[1].as<const T>() + at, args.in[2].as<const T>() + at,
                        args.out[0].as<T>() + at, args.out[1].as<float>() + task * s.tokens, s.Ahead(task, end),
                        scratch);
  };
  ParallelForThread(s.batch * s.heads, 1, args.threads, [&](int64_t begin, int64_t end, int thread) {
    float* const scratch = static_cast<float*>(args.workspace) + thread * ForwardScratch<T>(s);
    InSteps<T>(s, [&]<bool kPairs>() {
      for (int64_t task = begin; task < end; ++task) forward.template operator()<kPairs>(task, end, scratch);
    });
  });
  return nullptr;
}

template <typename T>
size_t AttentionWorkspace(const KernelArgs& args) {
  const Shape s(args.in[0], *args.attrs);
  if (GoesByTiles<T>(s)) return args.threads * ForwardTileScratch(s);
  return args.threads * ForwardScratch<T>(s) * sizeof(float);
}

// in: dout, q, k, v, out, lse; out: dq, dk, dv.
template <typename T>
const char* AttentionGrad(const KernelArgs& args) {
  const Shape s(args.in[1], *args.attrs);
  if (GoesByTiles<T>(s)) return AttentionGradOnTiles(args);
  const auto backward = [&]<bool kPairs>(int64_t task, int64_t end, float* scratch) {
    const int64_t at = s.HeadAt(task);
    const auto in = [&](int i) { return args.in[i].as<const T>() + at; };
    const auto out = [&](int i) { return args.out[i].as<T>() + at; };
    const float* const lse = args.in[5].as<const float>() + task * s.tokens;
    BackwardHead<kPairs, T>(s, {in(0), in(1), in(2), in(3), in(4), lse, out(0), out(1), out(2)}, s.Ahead(task, end),
                            scratch);
  };
  ParallelForThread(s.batch * s.heads, 1, args.threads, [&](int64_t begin, int64_t end, int thread) {
    float* const scratch = static_cast<float*>(args.workspace) + thread * BackwardScratch<T>(s);
    InSteps<T>(s, [&]<bool kPairs>() {
      for (int64_t task = begin; task < end; ++task) backward.template operator()<kPairs>(task, end, scratch);
    });
  });
  return nullptr;
}

template <typename T>
size_t AttentionGradWorkspace(const KernelArgs& args) {
  const Shape s(args.in[1], *args.attrs);
  if (GoesByTiles<T>(s)) return args.threads * BackwardTileScratch(s);
  return args.threads * BackwardScratch<T>(s) * sizeof(float);
}

template <typename T>
void List(DType dtype, KernelList& kernels) {
  kernels.push_back({"attention", dtype, Attention<T>, AttentionWorkspace<T>});
  kernels.push_back({"attention_grad", dtype, AttentionGrad<T>, AttentionGradWorkspace<T>});
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
