// Tiles of heads in shared memory, and their products, for the kernels of attention.cu.
//
// A block is 16x16 threads. In a product of a tile of R rows with another of R rows ("Dot"), thread (tx, ty) has rows
// ty*M .. ty*M+M-1 of the first and rows tx, tx+16, ... of the second, M = R/16; then in a product with D columns
// ("AddProduct") the same rows and columns 4*tx .. 4*tx+3 of every 64. Tiles lie in shared memory with rows padded by
// 16 bytes, so that neither has bank conflicts. D is the head size rounded up to 64, 128 or 256; tiles are zero beyond
// the head and the last token.
#pragma once

#include <cmath>

#include "kernels/attention_scores.h"
#include "kernels/cuda/division.h"
#include "kernels/cuda/half.cuh"

namespace oneflow::cuda::attention {

inline constexpr int kSide = 16;  // of the square of threads
static_assert(kSide * kSide == kThreads);
inline constexpr int kMaxHead = 256;

// Of q[b,t,columns] and k[b,s,kv_columns], whose columns are the heads of this shard. Head h of q reads the h /
// group-th of k and v. A pair is a head of a sample: of q, or of k.
struct Shape {
  // `query` is input 0 of attention, input 1 of its gradient.
  Shape(const KernelArgs& args, int query) : scores(args, query), act(args.act) {
    const TensorArg &q = args.in[query], &k = args.in[query + 1];
    const AttrMap& attrs = *args.attrs;
    batch = q.dims[0];
    tokens = q.dims[1];
    columns = q.dims[2];
    keys = k.dims[1];
    kv_columns = k.dims[2];
    behind = q.start[1] - k.start[1];
    window = attrs.Int("window");
    causal = attrs.Bool("causal");
    if (behind >= keys - 1 && window == 0) causal = false;  // all queries see all keys
    const int64_t logical_heads = attrs.Int("heads", 1);
    d = logical_heads < 1 ? 0 : q.logical_dims[2] / logical_heads;
    heads = d == 0 ? 0 : columns / d;
    kv_heads = d == 0 ? 0 : kv_columns / d;
    group = kv_heads == 0 ? 1 : heads / kv_heads;
    const int64_t share = attrs.Int("share");
    first_head = share == 2 ? heads / 2 : 0;
    end_head = share == 1 ? heads / 2 : heads;
    by_heads = Divisor<uint64_t>(heads);
    by_kv_heads = Divisor<uint64_t>(kv_heads);
    scale = d == 0 ? 0 : static_cast<float>(attrs.Double("scale", 1 / std::sqrt(static_cast<double>(d))));
  }
  int64_t batch, tokens, columns, keys, kv_columns, window;
  int64_t behind;  // so many places lies the first query behind the first key: 0 where all of both are here
  int64_t d, heads, kv_heads, group;
  int64_t first_head, end_head;  // of a sample: those that see keys
  Divisor<uint64_t> by_heads, by_kv_heads;
  float scale;
  bool causal;
  AttentionScores scores;
  const ActNumbers* act;

  int64_t pairs() const { return batch * heads; }
  int64_t kv_pairs() const { return batch * kv_heads; }
  bool is_empty() const { return pairs() * tokens * keys == 0; }
  // Where a pair's head of q begins, and of k.
  __device__ int64_t HeadOffset(int64_t pair) const {
    const auto [sample, head] = by_heads.Divide(pair);
    return static_cast<int64_t>(sample) * tokens * columns + static_cast<int64_t>(head) * d;
  }
  __device__ int64_t KvOffset(int64_t kv_pair) const {
    const auto [sample, head] = by_kv_heads.Divide(kv_pair);
    return static_cast<int64_t>(sample) * keys * kv_columns + static_cast<int64_t>(head) * d;
  }
  // Of the tiles of R keys that the R queries from `first` on see: the first key, and the end.
  template <int R>
  __device__ int64_t KeysBegin(int64_t first) const {
    return window > 0 && first + behind >= window ? (first + behind + 1 - window) / R * R : 0;
  }
  template <int R>
  __device__ int64_t KeysEnd(int64_t first) const {
    return causal && first + behind + R < keys ? first + behind + R : keys;
  }
  // Of the tiles of queries that see the R keys from `first` on.
  template <int R>
  __device__ int64_t QueriesBegin(int64_t first) const {
    return causal && first > behind ? (first - behind) / R * R : 0;
  }
  template <int R>
  __device__ int64_t QueriesEnd(int64_t first) const {
    return window > 0 && first - behind + R - 1 + window < tokens ? first - behind + R - 1 + window : tokens;
  }
};

// A head in its tensor.
template <typename X>
struct HeadRows {
  X* data;
  int64_t count, stride, d;
};
template <typename X>
__device__ HeadRows<X> OfQueries(const Shape& s, X* tensor, int64_t pair) {
  return {tensor + s.HeadOffset(pair), s.tokens, s.columns, s.d};
}
template <typename X>
__device__ HeadRows<X> OfKeys(const Shape& s, X* tensor, int64_t kv_pair) {
  return {tensor + s.KvOffset(kv_pair), s.keys, s.kv_columns, s.d};
}

template <int D, int R>
struct Tile {
  static constexpr int kM = R / kSide;    // rows of a thread
  static constexpr int kN = D / 64;       // groups of four columns of a thread
  static constexpr int kStride = D + 4;   // floats between rows
  static constexpr int kWeights = R + 4;  // the same, of a tile of scores
  static constexpr size_t kSize = R * kStride;
};

// A tile of a head's rows from `first` on.
template <int D, int R, typename X>
__device__ void Load(const HeadRows<const X>& head, int64_t first, float* tile) {
  if (head.d % 4 == 0) {  // then every row begins at four elements
    for (int i = threadIdx.x; i < R * (D / 4); i += kThreads) {
      const int row = i / (D / 4), column = i % (D / 4) * 4;
      float4 v = make_float4(0, 0, 0, 0);
      if (first + row < head.count && column < head.d) {
        const X* const from = head.data + (first + row) * head.stride + column;
        if constexpr (kIsHalf<X>) {
          const Four<X> four = *reinterpret_cast<const Four<X>*>(from);
          v = make_float4(Widen(four.of[0]), Widen(four.of[1]), Widen(four.of[2]), Widen(four.of[3]));
        } else {
          v = *reinterpret_cast<const float4*>(from);
        }
      }
      *reinterpret_cast<float4*>(tile + row * Tile<D, R>::kStride + column) = v;
    }
    return;
  }
  for (int i = threadIdx.x; i < R * D; i += kThreads) {
    const int row = i / D, column = i % D;
    const bool is_there = first + row < head.count && column < head.d;
    tile[row * Tile<D, R>::kStride + column] = is_there ? Widen(head.data[(first + row) * head.stride + column]) : 0.0f;
  }
}

// dot[i][j] = a[ty*M + i] . b[tx + 16 j].
template <int D, int R>
__device__ void Dot(const float* a, const float* b, float (&dot)[R / kSide][R / kSide]) {
  constexpr int kM = Tile<D, R>::kM, kStride = Tile<D, R>::kStride;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kM; ++j) dot[i][j] = 0;
  }
#pragma unroll 4
  for (int c = 0; c < D; c += 4) {
    float4 x[kM], y[kM];
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      x[i] = *reinterpret_cast<const float4*>(a + (ty * kM + i) * kStride + c);
      y[i] = *reinterpret_cast<const float4*>(b + (tx + kSide * i) * kStride + c);
    }
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kM; ++j) {
        dot[i][j] += x[i].x * y[j].x + x[i].y * y[j].y + x[i].z * y[j].z + x[i].w * y[j].w;
      }
    }
  }
}

__device__ inline void AddScaled(float factor, float4 v, float4* sum) {
  sum->x += factor * v.x;
  sum->y += factor * v.y;
  sum->z += factor * v.z;
  sum->w += factor * v.w;
}

// sum[i] += sum over k of weights[ty*M + i][k] * x[k], this thread's columns.
template <int D, int R>
__device__ void AddProduct(const float* weights, const float* x, float4 (&sum)[R / kSide][D / 64]) {
  using T = Tile<D, R>;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll 2
  for (int k = 0; k < R; k += 4) {
    float4 w[T::kM];
#pragma unroll
    for (int i = 0; i < T::kM; ++i)
      w[i] = *reinterpret_cast<const float4*>(weights + (ty * T::kM + i) * T::kWeights + k);
#pragma unroll
    for (int n = 0; n < T::kN; ++n) {
      const float* const at = x + k * T::kStride + 4 * tx + 64 * n;
      const float4 x0 = *reinterpret_cast<const float4*>(at);
      const float4 x1 = *reinterpret_cast<const float4*>(at + T::kStride);
      const float4 x2 = *reinterpret_cast<const float4*>(at + 2 * T::kStride);
      const float4 x3 = *reinterpret_cast<const float4*>(at + 3 * T::kStride);
#pragma unroll
      for (int i = 0; i < T::kM; ++i) {
        AddScaled(w[i].x, x0, &sum[i][n]);
        AddScaled(w[i].y, x1, &sum[i][n]);
        AddScaled(w[i].z, x2, &sum[i][n]);
        AddScaled(w[i].w, x3, &sum[i][n]);
      }
    }
  }
}

template <int D, int R>
__device__ void StoreWeights(const float (&values)[R / kSide][R / kSide], float* weights) {
  using T = Tile<D, R>;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
#pragma unroll
    for (int j = 0; j < T::kM; ++j) weights[(ty * T::kM + i) * T::kWeights + tx + kSide * j] = values[i][j];
  }
}

// head[first + ty*M + i] = factor[i] * sum[i], as far as there are rows and columns.
template <int D, int R, typename X>
__device__ void StoreRows(const float4 (&sum)[R / kSide][D / 64], const float (&factor)[R / kSide], int64_t first,
                          const HeadRows<X>& head) {
  using T = Tile<D, R>;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    const int64_t row = first + ty * T::kM + i;
    if (row >= head.count) continue;
#pragma unroll
    for (int n = 0; n < T::kN; ++n) {
      const int column = 4 * tx + 64 * n;
      const float values[4] = {sum[i][n].x, sum[i][n].y, sum[i][n].z, sum[i][n].w};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (column + k < head.d) head.data[row * head.stride + column + k] = Narrow<X>(factor[i] * values[k]);
      }
    }
  }
}

// The same, with factors of 1.
template <int D, int R, typename X>
__device__ void StoreRows(const float4 (&sum)[R / kSide][D / 64], int64_t first, const HeadRows<X>& head) {
  float one[R / kSide];
#pragma unroll
  for (int i = 0; i < R / kSide; ++i) one[i] = 1;
  StoreRows<D, R>(sum, one, first, head);
}

// Over the 16 threads that share rows: half a warp.
template <typename Op>
__device__ float ReduceRow(float value, Op op) {
#pragma unroll
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// The scores of a pair: what makes probabilities of products.
class PairScores {
 public:
  __device__ PairScores(const Shape& s, int64_t pair) : s_(s) {
    const auto [sample, head] = s.by_heads.Divide(pair);
    sees_ = static_cast<int64_t>(head) >= s.first_head && static_cast<int64_t>(head) < s.end_head;
    if (s.scores.has_documents) {
      queries_ = s.scores.query_documents + static_cast<int64_t>(sample) * s.tokens;
      keys_ = s.scores.key_documents + static_cast<int64_t>(sample) * s.keys;
    }
    if (!s.scores.drops) return;
    step_ = static_cast<uint64_t>(s.act->step);
    first_ = static_cast<uint64_t>(s.act->micro_batch * s.scores.whole + s.scores.IndexOf(sample, head, 0));
  }

  // Whether the head is one that sees keys.
  __device__ bool sees() const { return sees_; }
  // Whether the query sees the key; both may be beyond the last one.
  __device__ bool Sees(int64_t query, int64_t key) const {
    return query < s_.tokens && key < s_.keys && (!s_.causal || key <= query + s_.behind) &&
           (s_.window == 0 || key + s_.window > query + s_.behind) &&
           (keys_ == nullptr || queries_[query] == keys_[key]);
  }
  __device__ float Of(float product) const {
    const float score = product * s_.scale, cap = s_.scores.soft_cap;
    return cap == 0 ? score : cap * tanhf(score / cap);
  }
  // Of a score by its product.
  __device__ float Slope(float score) const {
    const float share = s_.scores.soft_cap == 0 ? 0 : score / s_.scores.soft_cap;
    return s_.scale * (1 - share * share);
  }
  // What the probability is multiplied by.
  __device__ float Kept(int64_t query, int64_t key) const {
    if (!s_.scores.drops) return 1;
    const uint64_t index = first_ + static_cast<uint64_t>(query * s_.scores.keys + key);
    return RandomBits(s_.scores.key, step_, index) >> 8 >= s_.scores.threshold ? s_.scores.kept : 0;
  }

 private:
  const Shape& s_;
  bool sees_ = true;
  const int32_t *queries_ = nullptr, *keys_ = nullptr;
  uint64_t step_ = 0, first_ = 0;
};

}  // namespace oneflow::cuda::attention
