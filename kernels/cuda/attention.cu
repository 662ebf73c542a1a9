// Scaled dot-product attention and its gradient without ever writing the scores to memory (Dao et al.,
// "FlashAttention", 2022).
//
//   forward   S = Q K^T / sqrt(d),  lse_i = log sum_j exp(S_ij),  P = exp(S - lse),  out = P V
//   backward  P again from lse;  dP = dout V^T,  D_i = dout_i . out_i,  dS = P (dP - D) / sqrt(d)
//             dV = P^T dout,  dK = dS^T Q     a block per tile of keys, walking through the queries
//             dQ = dS K                       a block per tile of queries, walking through the keys
//
// The scores of the backward pass are computed twice, so that every element has one writer: the same result in every
// run, no atomics.
//
// A block is 16x16 threads. In a product of a tile of R rows with another of R rows ("Dot"), thread (tx, ty) has rows
// ty*M .. ty*M+M-1 of the first and rows tx, tx+16, ... of the second, M = R/16; then in a product with D columns
// ("AddProduct") the same rows and columns 4*tx .. 4*tx+3 of every 64. Tiles lie in shared memory with rows padded by
// 16 bytes, so that neither has bank conflicts. D is the head size rounded up to 64, 128 or 256; what is beyond the
// head or the last token is zero.
//
// All of this is for f32, which tensor cores do not multiply, and for heads of 16-bit floats for which cuDNN has no
// kernel (cudnn_attention.h).
#include <cmath>
#include <memory>

#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/division.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

constexpr int kSide = 16;  // of the square of threads
static_assert(kSide * kSide == kThreads);
constexpr int kMaxHead = 256;

struct Shape {
  Shape(const TensorArg& q, const AttrMap& attrs)
      : batch(q.dims[0]), tokens(q.dims[1]), columns(q.dims[2]), causal(attrs.Bool("causal")) {
    const int64_t logical_heads = attrs.Int("heads", 1);
    d = logical_heads < 1 ? 0 : q.logical_dims[2] / logical_heads;
    heads = d == 0 ? 0 : columns / d;
    by_heads = Divisor<uint64_t>(heads);
    scale = d == 0 ? 0 : static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  }
  int64_t batch, tokens, columns, d, heads;  // columns: all heads of this shard
  Divisor<uint64_t> by_heads;
  float scale;
  bool causal;

  int64_t pairs() const { return batch * heads; }
  bool is_empty() const { return pairs() * tokens == 0; }
  // Where head `pair` of a [b,t,c] tensor begins.
  __device__ int64_t HeadOffset(int64_t pair) const {
    const auto [sample, head] = by_heads.Divide(pair);
    return static_cast<int64_t>(sample) * tokens * columns + static_cast<int64_t>(head) * d;
  }
};

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
__device__ void Load(const Shape& s, const X* head, int64_t first, float* tile) {
  if (s.d % 4 == 0) {  // then every row begins at four elements
    for (int i = threadIdx.x; i < R * (D / 4); i += kThreads) {
      const int row = i / (D / 4), column = i % (D / 4) * 4;
      float4 v = make_float4(0, 0, 0, 0);
      if (first + row < s.tokens && column < s.d) {
        const X* const from = head + (first + row) * s.columns + column;
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
    const bool is_there = first + row < s.tokens && column < s.d;
    tile[row * Tile<D, R>::kStride + column] = is_there ? Widen(head[(first + row) * s.columns + column]) : 0.0f;
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

// head[first + ty*M + i] = factor[i] * sum[i], as far as there are tokens and columns.
template <int D, int R, typename X>
__device__ void StoreRows(const Shape& s, const float4 (&sum)[R / kSide][D / 64], const float (&factor)[R / kSide],
                          int64_t first, X* head) {
  using T = Tile<D, R>;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    const int64_t row = first + ty * T::kM + i;
    if (row >= s.tokens) continue;
#pragma unroll
    for (int n = 0; n < T::kN; ++n) {
      const int column = 4 * tx + 64 * n;
      const float values[4] = {sum[i][n].x, sum[i][n].y, sum[i][n].z, sum[i][n].w};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (column + k < s.d) head[row * s.columns + column + k] = Narrow<X>(factor[i] * values[k]);
      }
    }
  }
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

// Whether the query sees the key; both may be beyond the last token.
__device__ inline bool Sees(const Shape& s, int64_t query, int64_t key) {
  return query < s.tokens && key < s.tokens && (!s.causal || key <= query);
}

template <int D, int R, typename X>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(Shape s, unsigned tiles, const X* q, const X* k, const X* v, X* out, float* lse) {
  using T = Tile<D, R>;
  float* const queries = reinterpret_cast<float*>(dynamic_shared_memory);
  float* const rows = queries + T::kSize;  // keys, then values
  float* const weights = rows + T::kSize;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  // Under a causal mask the last tiles have most to do: they begin first.
  const int64_t pair = blockIdx.x / tiles, first = int64_t{tiles - 1 - blockIdx.x % tiles} * R;
  const int64_t head = s.HeadOffset(pair);

  float top[T::kM], total[T::kM];  // running maximum, and sum of exponentials below it, of each row
  float4 sum[T::kM][T::kN] = {};
#pragma unroll
  for (int i = 0; i < T::kM; ++i) top[i] = -INFINITY, total[i] = 0;
  Load<D, R>(s, q + head, first, queries);
  const int64_t end = s.causal && first + R < s.tokens ? first + R : s.tokens;
  for (int64_t key = 0; key < end; key += R) {
    __syncthreads();  // the values of the last tile are used up
    Load<D, R>(s, k + head, key, rows);
    __syncthreads();
    float scores[T::kM][T::kM];
    Dot<D, R>(queries, rows, scores);
    __syncthreads();
    Load<D, R>(s, v + head, key, rows);
#pragma unroll
    for (int i = 0; i < T::kM; ++i) {
      const int64_t query = first + ty * T::kM + i;
      float new_top = top[i];
#pragma unroll
      for (int j = 0; j < T::kM; ++j) {
        const int64_t column = key + tx + kSide * j;
        // Rows beyond the last token take part, unseen by anyone, so that no maximum is ever -inf.
        const bool visible = column < s.tokens && (!s.causal || column <= query);
        scores[i][j] = visible ? scores[i][j] * s.scale : -INFINITY;
        new_top = MaxOf()(new_top, scores[i][j]);
      }
      new_top = ReduceRow(new_top, MaxOf());
      float part = 0;
#pragma unroll
      for (int j = 0; j < T::kM; ++j) part += scores[i][j] = expf(scores[i][j] - new_top);
      const float shrink = expf(top[i] - new_top);
      total[i] = total[i] * shrink + ReduceRow(part, SumOf());
      top[i] = new_top;
#pragma unroll
      for (int n = 0; n < T::kN; ++n) {
        const float4 old = sum[i][n];
        sum[i][n] = make_float4(old.x * shrink, old.y * shrink, old.z * shrink, old.w * shrink);
      }
    }
    StoreWeights<D, R>(scores, weights);
    __syncthreads();
    AddProduct<D, R>(weights, rows, sum);
  }
  float inverse[T::kM];
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    inverse[i] = 1 / total[i];
    const int64_t query = first + ty * T::kM + i;
    if (tx == 0 && query < s.tokens) lse[pair * s.tokens + query] = top[i] + logf(total[i]);
  }
  StoreRows<D, R>(s, sum, inverse, first, out + head);
}

template <typename X>
struct GradTensors {
  const X *dout, *q, *k, *v, *out;
  const float* lse;
  X *dq, *dk, *dv;
};

// delta[pair][token] = dout . out of that head and token: a warp each.
template <typename X>
__global__ void DeltaKernel(Shape s, int64_t tasks, Divisor<uint64_t> tokens, GradTensors<X> x, float* delta) {
  const Team<kWarp> team;
  for (int64_t task = team.first(); task < tasks; task += team.stride()) {
    const auto [pair, token] = tokens.Divide(task);
    const int64_t at = s.HeadOffset(pair) + static_cast<int64_t>(token) * s.columns;
    float dot = 0;
    for (int64_t i = team.member(); i < s.d; i += kWarp) dot += Widen(x.dout[at + i]) * Widen(x.out[at + i]);
    dot = Reduce<kWarp>(dot, SumOf());
    if (team.member() == 0) delta[task] = dot;
  }
}

template <int D, int R, typename X>
__global__ void __launch_bounds__(kThreads)
    QueryGradKernel(Shape s, unsigned tiles, GradTensors<X> x, const float* delta) {
  using T = Tile<D, R>;
  float* const queries = reinterpret_cast<float*>(dynamic_shared_memory);
  float* const douts = queries + T::kSize;
  float* const keys = douts + T::kSize;
  float* const values = keys + T::kSize;
  float* const weights = values + T::kSize;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int64_t pair = blockIdx.x / tiles, first = int64_t{tiles - 1 - blockIdx.x % tiles} * R;
  const int64_t head = s.HeadOffset(pair);

  float row_lse[T::kM], row_delta[T::kM];
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    const int64_t query = first + ty * T::kM + i;
    row_lse[i] = query < s.tokens ? x.lse[pair * s.tokens + query] : 0;
    row_delta[i] = query < s.tokens ? delta[pair * s.tokens + query] : 0;
  }
  Load<D, R>(s, x.q + head, first, queries);
  Load<D, R>(s, x.dout + head, first, douts);
  float4 sum[T::kM][T::kN] = {};
  const int64_t end = s.causal && first + R < s.tokens ? first + R : s.tokens;
  for (int64_t key = 0; key < end; key += R) {
    __syncthreads();  // the last tile is used up
    Load<D, R>(s, x.k + head, key, keys);
    Load<D, R>(s, x.v + head, key, values);
    __syncthreads();
    float scores[T::kM][T::kM], grads[T::kM][T::kM];
    Dot<D, R>(queries, keys, scores);
    Dot<D, R>(douts, values, grads);
#pragma unroll
    for (int i = 0; i < T::kM; ++i) {
#pragma unroll
      for (int j = 0; j < T::kM; ++j) {
        const bool visible = Sees(s, first + ty * T::kM + i, key + tx + kSide * j);
        const float p = visible ? expf(scores[i][j] * s.scale - row_lse[i]) : 0.0f;
        grads[i][j] = p * (grads[i][j] - row_delta[i]) * s.scale;
      }
    }
    StoreWeights<D, R>(grads, weights);
    __syncthreads();
    AddProduct<D, R>(weights, keys, sum);
  }
  float one[T::kM];
#pragma unroll
  for (int i = 0; i < T::kM; ++i) one[i] = 1;
  StoreRows<D, R>(s, sum, one, first, x.dq + head);
}

// Here the rows of scores are keys, their columns queries.
template <int D, int R, typename X>
__global__ void __launch_bounds__(kThreads)
    KeyGradKernel(Shape s, unsigned tiles, GradTensors<X> x, const float* delta) {
  using T = Tile<D, R>;
  float* const keys = reinterpret_cast<float*>(dynamic_shared_memory);
  float* const values = keys + T::kSize;
  float* const queries = values + T::kSize;
  float* const douts = queries + T::kSize;
  float* const weights = douts + T::kSize;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int64_t pair = blockIdx.x / tiles, first = int64_t{blockIdx.x % tiles} * R;
  const int64_t head = s.HeadOffset(pair);

  Load<D, R>(s, x.k + head, first, keys);
  Load<D, R>(s, x.v + head, first, values);
  float4 dk[T::kM][T::kN] = {}, dv[T::kM][T::kN] = {};
  for (int64_t query = s.causal ? first : 0; query < s.tokens; query += R) {
    __syncthreads();  // the last tile is used up
    Load<D, R>(s, x.q + head, query, queries);
    Load<D, R>(s, x.dout + head, query, douts);
    __syncthreads();
    float scores[T::kM][T::kM], grads[T::kM][T::kM];
    Dot<D, R>(keys, queries, scores);
    Dot<D, R>(values, douts, grads);
#pragma unroll
    for (int j = 0; j < T::kM; ++j) {
      const int64_t column = query + tx + kSide * j;
      const float column_lse = column < s.tokens ? x.lse[pair * s.tokens + column] : 0;
      const float column_delta = column < s.tokens ? delta[pair * s.tokens + column] : 0;
#pragma unroll
      for (int i = 0; i < T::kM; ++i) {
        const bool visible = Sees(s, column, first + ty * T::kM + i);
        scores[i][j] = visible ? expf(scores[i][j] * s.scale - column_lse) : 0.0f;
        grads[i][j] = scores[i][j] * (grads[i][j] - column_delta) * s.scale;
      }
    }
    StoreWeights<D, R>(scores, weights);
    __syncthreads();
    AddProduct<D, R>(weights, douts, dv);
    __syncthreads();
    StoreWeights<D, R>(grads, weights);
    __syncthreads();
    AddProduct<D, R>(weights, queries, dk);
  }
  float one[T::kM];
#pragma unroll
  for (int i = 0; i < T::kM; ++i) one[i] = 1;
  StoreRows<D, R>(s, dk, one, first, x.dk + head);
  StoreRows<D, R>(s, dv, one, first, x.dv + head);
}

// One block per tile of tokens and head, with more shared memory than a kernel gets unasked.
template <auto kKernel, int D, int R, typename... Args>
const char* LaunchTiles(int held_tiles, cudaStream_t stream, const Shape& s, Args... args) {
  const size_t bytes = (held_tiles * Tile<D, R>::kSize + R * Tile<D, R>::kWeights) * sizeof(float);
  if (const char* error = AllowSharedMemory<kKernel>(bytes)) return error;
  const int64_t tiles = (s.tokens + R - 1) / R;
  return Launch({stream, static_cast<unsigned>(tiles * s.pairs()), bytes}, kKernel, s, tiles, args...);
}

template <typename X, int D, int R>
const char* Forward(const KernelArgs& args, const Shape& s) {
  return LaunchTiles<ForwardKernel<D, R, X>, D, R>(2, Stream(args), s, args.in[0].as<const X>(),
                                                   args.in[1].as<const X>(), args.in[2].as<const X>(),
                                                   args.out[0].as<X>(), args.out[1].as<float>());
}

template <typename X, int D, int R>
const char* Backward(const KernelArgs& args, const Shape& s) {
  const auto in = [&](int i) { return args.in[i].as<const X>(); };
  const auto out = [&](int i) { return args.out[i].as<X>(); };
  const GradTensors<X> x = {in(0), in(1), in(2), in(3), in(4), args.in[5].as<const float>(), out(0), out(1), out(2)};
  float* const delta = static_cast<float*>(args.workspace);
  const int64_t tasks = s.pairs() * s.tokens;
  if (const char* error = Launch({Stream(args), Blocks(tasks, kThreads / kWarp)}, DeltaKernel<X>, s, tasks,
                                 Divisor<uint64_t>(s.tokens), x, delta)) {
    return error;
  }
  if (const char* error = LaunchTiles<QueryGradKernel<D, R, X>, D, R>(4, Stream(args), s, x, delta)) return error;
  return LaunchTiles<KeyGradKernel<D, R, X>, D, R>(4, Stream(args), s, x, delta);
}

// What `prepare` makes.
struct Prepared {
  std::shared_ptr<const CudnnAttention> fused;  // null: ours
};

constexpr size_t kScratchAlignment = 256;  // as device memory has it

const char* RunFused(const CudnnAttention& fused, const AttentionTensors& tensors, const KernelArgs& args) {
  const uintptr_t scratch = reinterpret_cast<uintptr_t>(args.workspace);
  const uintptr_t aligned = (scratch + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  return fused.Run(tensors, reinterpret_cast<void*>(aligned), Stream(args));
}

// in: q, k, v; out: out, lse[b,n,t]. With heads of 256 four tiles of 64 rows would not fit into shared memory.
template <typename X>
const char* Attention(const KernelArgs& args) {
  const Shape s(args.in[0], *args.attrs);
  if (s.is_empty()) return nullptr;
  if (const auto& fused = static_cast<const Prepared*>(args.state)->fused; fused != nullptr) {
    return RunFused(*fused,
                    {.q = args.in[0].data,
                     .k = args.in[1].data,
                     .v = args.in[2].data,
                     .out = args.out[0].data,
                     .lse = args.out[1].as<float>()},
                    args);
  }
  return s.d <= 64    ? Forward<X, 64, 64>(args, s)
         : s.d <= 128 ? Forward<X, 128, 64>(args, s)
                      : Forward<X, 256, 32>(args, s);
}

// in: dout, q, k, v, out, lse; out: dq, dk, dv.
template <typename X>
const char* AttentionGrad(const KernelArgs& args) {
  const Shape s(args.in[1], *args.attrs);
  if (s.is_empty()) return nullptr;
  if (const auto& fused = static_cast<const Prepared*>(args.state)->fused; fused != nullptr) {
    return RunFused(*fused,
                    {.q = args.in[1].data,
                     .k = args.in[2].data,
                     .v = args.in[3].data,
                     .out = args.in[4].data,
                     .lse = args.in[5].as<float>(),
                     .dout = args.in[0].data,
                     .dq = args.out[0].data,
                     .dk = args.out[1].data,
                     .dv = args.out[2].data},
                    args);
  }
  return s.d <= 64    ? Backward<X, 64, 64>(args, s)
         : s.d <= 128 ? Backward<X, 128, 64>(args, s)
                      : Backward<X, 256, 32>(args, s);
}

template <int kQuery>
AttentionProblem ProblemOf(const KernelArgs& args, const Shape& s) {
  return {.backward = kQuery == 1,
          .dtype = args.in[kQuery].dtype,
          .batch = s.batch,
          .tokens = s.tokens,
          .heads = s.heads,
          .head_size = s.d,
          .causal = s.causal,
          .scale = s.scale};
}

// Without a state: the most that it may be.
template <int kQuery>
size_t AttentionWorkspace(const KernelArgs& args) {
  const Shape s(args.in[kQuery], *args.attrs);
  if (s.is_empty()) return 0;
  const size_t ours = kQuery == 1 ? static_cast<size_t>(s.pairs() * s.tokens) * sizeof(float) : 0;
  const auto* const prepared = static_cast<const Prepared*>(args.state);
  size_t fused = 0;
  if (prepared != nullptr && prepared->fused != nullptr) {
    fused = prepared->fused->workspace_bytes() + kScratchAlignment;
  } else if (prepared == nullptr && IsNarrow(args.in[kQuery].dtype)) {
    const AttentionProblem problem = ProblemOf<kQuery>(args, s);
    fused = ExpectedScratch(problem, CallOf(problem)) + kScratchAlignment;
  }
  return fused > ours ? fused : ours;
}

// Refuses heads that are too large for either.
template <int kQuery>
std::shared_ptr<void> Prepare(const KernelArgs& args) {
  const Shape s(args.in[kQuery], *args.attrs);
  auto prepared = std::make_shared<Prepared>();
  if (!s.is_empty() && IsNarrow(args.in[kQuery].dtype)) {
    prepared->fused = MakeCudnnAttention(ProblemOf<kQuery>(args, s));
  }
  if (prepared->fused == nullptr && s.d > kMaxHead) return nullptr;
  return prepared;
}

}  // namespace

KernelList AttentionKernels() {
  return {OF_FLOAT_KERNELS("attention", Attention, AttentionWorkspace<0>, Prepare<0>),
          OF_FLOAT_KERNELS("attention_grad", AttentionGrad, AttentionWorkspace<1>, Prepare<1>)};
}

}  // namespace oneflow::cuda
