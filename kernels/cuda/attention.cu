// Scaled dot-product attention and its gradient without ever writing the scores to memory (Dao et al.,
// "FlashAttention", 2022).
//
//   forward   S = scale Q K^T,  lse_i = log sum_j exp(S_ij),  P = exp(S - lse),  out = P V
//   backward  P again from lse;  dP = dout V^T,  D_i = dout_i . out_i - dlse_i,  dS = scale P (dP - D)
//             dV = P^T dout,  dK = dS^T Q     a block per tile of keys, walking through the queries of their heads
//             dQ = dS K                       a block per tile of queries, walking through the keys
//
// The scores of the backward pass are computed twice, so that every element has one writer: the same result in every
// run, no atomics.
//
// All of this is for f32, which tensor cores do not multiply, for heads of 16-bit floats for which cuDNN has no kernel
// (cudnn_attention.h), for scores that are capped, hidden between documents or dropped (kernels/attention_scores.h),
// and for gradients that come through lse. A query that sees no key has out = 0 and lse = -inf.
#include <cmath>
#include <memory>

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace attention {
namespace {

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
  const HeadRows<const X> key_rows = OfKeys(s, k, pair / s.group), value_rows = OfKeys(s, v, pair / s.group);
  const PairScores of_pair(s, pair);

  float top[T::kM], total[T::kM];  // running maximum, and sum of exponentials below it, of each row
  float4 sum[T::kM][T::kN] = {};
#pragma unroll
  for (int i = 0; i < T::kM; ++i) top[i] = -INFINITY, total[i] = 0;
  Load<D, R>(OfQueries(s, q, pair), first, queries);
  const int64_t end = of_pair.sees() ? s.KeysEnd<R>(first) : 0;
  for (int64_t key = s.KeysBegin<R>(first); key < end; key += R) {
    __syncthreads();  // the values of the last tile are used up
    Load<D, R>(key_rows, key, rows);
    __syncthreads();
    float scores[T::kM][T::kM];
    Dot<D, R>(queries, rows, scores);
    __syncthreads();
    Load<D, R>(value_rows, key, rows);
#pragma unroll
    for (int i = 0; i < T::kM; ++i) {
      const int64_t query = first + ty * T::kM + i;
      float new_top = top[i];
#pragma unroll
      for (int j = 0; j < T::kM; ++j) {
        const int64_t column = key + tx + kSide * j;
        scores[i][j] = of_pair.Sees(query, column) ? of_pair.Of(scores[i][j]) : -INFINITY;
        new_top = MaxOf()(new_top, scores[i][j]);
      }
      new_top = ReduceRow(new_top, MaxOf());
      const float shift = new_top == -INFINITY ? 0.0f : new_top;  // a row may see no key of a tile, or of any
      float part = 0;
#pragma unroll
      for (int j = 0; j < T::kM; ++j) {
        const float weight = expf(scores[i][j] - shift);
        part += weight;
        scores[i][j] = weight * of_pair.Kept(query, key + tx + kSide * j);
      }
      const float shrink = expf(top[i] - shift);
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
    inverse[i] = total[i] == 0 ? 0 : 1 / total[i];
    const int64_t query = first + ty * T::kM + i;
    if (tx == 0 && query < s.tokens) lse[pair * s.tokens + query] = top[i] + logf(total[i]);
  }
  StoreRows<D, R>(sum, inverse, first, OfQueries(s, out, pair));
}

template <typename X>
struct GradTensors {
  const X *dout, *q, *k, *v, *out;
  const float* lse;
  X *dq, *dk, *dv;
};

// delta[pair][token] = dout . out - dlse of that head and token: a warp each.
template <typename X>
__global__ void DeltaKernel(Shape s, int64_t tasks, Divisor<uint64_t> tokens, GradTensors<X> x, float* delta) {
  const Team<kWarp> team;
  for (int64_t task = team.first(); task < tasks; task += team.stride()) {
    const auto [pair, token] = tokens.Divide(task);
    const int64_t at = s.HeadOffset(pair) + static_cast<int64_t>(token) * s.columns;
    float dot = 0;
    for (int64_t i = team.member(); i < s.d; i += kWarp) dot += Widen(x.dout[at + i]) * Widen(x.out[at + i]);
    dot = Reduce<kWarp>(dot, SumOf());
    if (team.member() == 0) delta[task] = s.scores.dlse == nullptr ? dot : dot - s.scores.dlse[task];
  }
}

// The tiles of a block of a gradient: of two tensors the tokens that it owns, of two others those that it walks
// through, and one of scores.
template <int D, int R>
struct GradTiles {
  using T = Tile<D, R>;
  using Scores = float[T::kM][T::kM];
  __device__ float* own(int i) const { return memory + i * T::kSize; }
  __device__ float* other(int i) const { return memory + (2 + i) * T::kSize; }
  __device__ float* weights() const { return memory + 4 * T::kSize; }

  // Loads the others' tokens from `first` on; scores = own(0) other(0)^T, grads = own(1) other(1)^T.
  template <typename X>
  __device__ void Multiply(const HeadRows<const X>& other0, const HeadRows<const X>& other1, int64_t first,
                           Scores& scores, Scores& grads) const {
    __syncthreads();  // the last tile is used up
    Load<D, R>(other0, first, other(0));
    Load<D, R>(other1, first, other(1));
    __syncthreads();
    Dot<D, R>(own(0), other(0), scores);
    Dot<D, R>(own(1), other(1), grads);
  }

  float* memory = reinterpret_cast<float*>(dynamic_shared_memory);
};

// Owns queries and gradients of the output, walks through keys and values.
template <int D, int R, typename X>
__global__ void __launch_bounds__(kThreads)
    QueryGradKernel(Shape s, unsigned tiles, GradTensors<X> x, const float* delta) {
  using T = Tile<D, R>;
  const GradTiles<D, R> block = {};
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int64_t pair = blockIdx.x / tiles, first = int64_t{tiles - 1 - blockIdx.x % tiles} * R;
  const HeadRows<const X> keys = OfKeys(s, x.k, pair / s.group), values = OfKeys(s, x.v, pair / s.group);
  const PairScores of_pair(s, pair);

  float row_lse[T::kM], row_delta[T::kM];
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    const int64_t query = first + ty * T::kM + i;
    row_lse[i] = query < s.tokens ? x.lse[pair * s.tokens + query] : 0;
    row_delta[i] = query < s.tokens ? delta[pair * s.tokens + query] : 0;
  }
  Load<D, R>(OfQueries(s, x.q, pair), first, block.own(0));
  Load<D, R>(OfQueries(s, x.dout, pair), first, block.own(1));
  float4 sum[T::kM][T::kN] = {};
  const int64_t end = of_pair.sees() ? s.KeysEnd<R>(first) : 0;
  for (int64_t key = s.KeysBegin<R>(first); key < end; key += R) {
    float scores[T::kM][T::kM], grads[T::kM][T::kM];
    block.Multiply(keys, values, key, scores, grads);
#pragma unroll
    for (int i = 0; i < T::kM; ++i) {
#pragma unroll
      for (int j = 0; j < T::kM; ++j) {
        const int64_t query = first + ty * T::kM + i, column = key + tx + kSide * j;
        const float score = of_pair.Of(scores[i][j]);
        const float p = of_pair.Sees(query, column) ? expf(score - row_lse[i]) : 0.0f;
        grads[i][j] = p * (grads[i][j] * of_pair.Kept(query, column) - row_delta[i]) * of_pair.Slope(score);
      }
    }
    StoreWeights<D, R>(grads, block.weights());
    __syncthreads();
    AddProduct<D, R>(block.weights(), block.other(0), sum);
  }
  StoreRows<D, R>(sum, first, OfQueries(s, x.dq, pair));
}

// Owns keys and values, walks through queries and gradients of the output, of all heads of the group. Here the rows of
// scores are keys, their columns queries.
template <int D, int R, typename X>
__global__ void __launch_bounds__(kThreads)
    KeyGradKernel(Shape s, unsigned tiles, GradTensors<X> x, const float* delta) {
  using T = Tile<D, R>;
  const GradTiles<D, R> block = {};
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int64_t kv_pair = blockIdx.x / tiles, first = int64_t{blockIdx.x % tiles} * R;

  Load<D, R>(OfKeys(s, x.k, kv_pair), first, block.own(0));
  Load<D, R>(OfKeys(s, x.v, kv_pair), first, block.own(1));
  float4 dk[T::kM][T::kN] = {}, dv[T::kM][T::kN] = {};
  for (int64_t pair = kv_pair * s.group; pair < (kv_pair + 1) * s.group; ++pair) {
    const HeadRows<const X> queries = OfQueries(s, x.q, pair), gradients = OfQueries(s, x.dout, pair);
    const PairScores of_pair(s, pair);
    const int64_t end = of_pair.sees() ? s.QueriesEnd<R>(first) : 0;
    for (int64_t query = s.QueriesBegin<R>(first); query < end; query += R) {
      float scores[T::kM][T::kM], grads[T::kM][T::kM];
      block.Multiply(queries, gradients, query, scores, grads);
#pragma unroll
      for (int j = 0; j < T::kM; ++j) {
        const int64_t column = query + tx + kSide * j;
        const float column_lse = column < s.tokens ? x.lse[pair * s.tokens + column] : 0;
        const float column_delta = column < s.tokens ? delta[pair * s.tokens + column] : 0;
#pragma unroll
        for (int i = 0; i < T::kM; ++i) {
          const int64_t row = first + ty * T::kM + i;
          const float score = of_pair.Of(scores[i][j]), kept = of_pair.Kept(column, row);
          const float p = of_pair.Sees(column, row) ? expf(score - column_lse) : 0.0f;
          grads[i][j] = p * (grads[i][j] * kept - column_delta) * of_pair.Slope(score);
          scores[i][j] = p * kept;
        }
      }
      StoreWeights<D, R>(scores, block.weights());
      __syncthreads();
      AddProduct<D, R>(block.weights(), block.other(1), dv);
      __syncthreads();
      StoreWeights<D, R>(grads, block.weights());
      __syncthreads();
      AddProduct<D, R>(block.weights(), block.other(0), dk);
    }
  }
  StoreRows<D, R>(dk, first, OfKeys(s, x.dk, kv_pair));
  StoreRows<D, R>(dv, first, OfKeys(s, x.dv, kv_pair));
}

// One block per tile of a head's rows, with more shared memory than a kernel gets unasked.
template <auto kKernel, int D, int R, typename... Args>
const char* LaunchTiles(int held_tiles, int64_t rows, int64_t pairs, cudaStream_t stream, const Shape& s,
                        Args... args) {
  const size_t bytes = (held_tiles * Tile<D, R>::kSize + R * Tile<D, R>::kWeights) * sizeof(float);
  if (const char* error = AllowSharedMemory<kKernel>(bytes)) return error;
  const int64_t tiles = (rows + R - 1) / R;
  if (tiles * pairs == 0) return nullptr;
  return Launch({stream, static_cast<unsigned>(tiles * pairs), bytes}, kKernel, s, tiles, args...);
}

template <typename X, int D, int R>
const char* Forward(const KernelArgs& args, const Shape& s) {
  return LaunchTiles<ForwardKernel<D, R, X>, D, R>(2, s.tokens, s.pairs(), Stream(args), s, args.in[0].as<const X>(),
                                                   args.in[1].as<const X>(), args.in[2].as<const X>(),
                                                   args.out[0].as<X>(), args.out[1].as<float>());
}

template <typename X, int D, int R>
const char* Backward(const KernelArgs& args, const Shape& s) {
  const auto in = [&](int i) { return args.in[i].as<const X>(); };
  const auto out = [&](int i) { return args.out[i].as<X>(); };
  const GradTensors<X> x = {in(0), in(1), in(2), in(3), in(4), args.in[5].as<const float>(), out(0), out(1), out(2)};
  float* const delta = static_cast<float*>(args.workspace);
  if (const int64_t tasks = s.pairs() * s.tokens; tasks > 0) {
    if (const char* error = Launch({Stream(args), Blocks(tasks, kThreads / kWarp)}, DeltaKernel<X>, s, tasks,
                                   Divisor<uint64_t>(s.tokens), x, delta)) {
      return error;
    }
  }
  if (const char* error =
          LaunchTiles<QueryGradKernel<D, R, X>, D, R>(4, s.tokens, s.pairs(), Stream(args), s, x, delta)) {
    return error;
  }
  return LaunchTiles<KeyGradKernel<D, R, X>, D, R>(4, s.keys, s.kv_pairs(), Stream(args), s, x, delta);
}

// f.operator()<D, R>() for the tiles of such a head. With heads of 256 four tiles of 64 rows would not fit into shared
// memory.
template <typename F>
const char* ByHeadSize(int64_t d, F f) {
  return d <= 64    ? f.template operator()<64, 64>()
         : d <= 128 ? f.template operator()<128, 64>()
                    : f.template operator()<256, 32>();
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

// in: q, k, v and documents; out: out, lse[b,n,t].
template <typename X>
const char* Attention(const KernelArgs& args) {
  const Shape s(args, 0);
  if (const auto& fused = static_cast<const Prepared*>(args.state)->fused; fused != nullptr) {
    return RunFused(*fused,
                    {.q = args.in[0].data,
                     .k = args.in[1].data,
                     .v = args.in[2].data,
                     .out = args.out[0].data,
                     .lse = args.out[1].as<float>()},
                    args);
  }
  return ByHeadSize(s.d, [&]<int D, int R>() { return Forward<X, D, R>(args, s); });
}

// in: dout, q, k, v, out, lse, documents and dlse; out: dq, dk, dv.
template <typename X>
const char* AttentionGrad(const KernelArgs& args) {
  const Shape s(args, 1);
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
  return ByHeadSize(s.d, [&]<int D, int R>() { return Backward<X, D, R>(args, s); });
}

template <int kQuery>
AttentionProblem ProblemOf(const KernelArgs& args, const Shape& s) {
  return {.backward = kQuery == 1,
          .dtype = args.in[kQuery].dtype,
          .batch = s.batch,
          .tokens = s.tokens,
          .keys = s.keys,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .head_size = s.d,
          .window = s.window,
          .causal = s.causal,
          .scale = s.scale};
}

// Whether cuDNN is asked for a kernel: its masks begin in the corner.
bool MayBeFused(const KernelArgs& args, const Shape& s, int query) {
  const bool from_corner = !s.causal || (s.behind == 0 && s.tokens == s.keys);
  const bool all_heads = s.end_head - s.first_head == s.heads;
  return !s.is_empty() && from_corner && all_heads && IsNarrow(args.in[query].dtype) && s.scores.are_plain() &&
         !s.scores.has_lse_gradient;
}

// Without a state: the most that it may be.
template <int kQuery>
size_t AttentionWorkspace(const KernelArgs& args) {
  const Shape s(args, kQuery);
  const size_t ours = kQuery == 1 ? static_cast<size_t>(s.pairs() * s.tokens) * sizeof(float) : 0;
  const auto* const prepared = static_cast<const Prepared*>(args.state);
  size_t fused = 0;
  if (prepared != nullptr && prepared->fused != nullptr) {
    fused = prepared->fused->workspace_bytes() + kScratchAlignment;
  } else if (prepared == nullptr && MayBeFused(args, s, kQuery)) {
    const AttentionProblem problem = ProblemOf<kQuery>(args, s);
    fused = ExpectedScratch(problem, CallOf(problem)) + kScratchAlignment;
  }
  return fused > ours ? fused : ours;
}

// Refuses heads that are too large for either.
template <int kQuery>
std::shared_ptr<void> Prepare(const KernelArgs& args) {
  const Shape s(args, kQuery);
  auto prepared = std::make_shared<Prepared>();
  if (MayBeFused(args, s, kQuery)) {
    prepared->fused = MakeCudnnAttention(ProblemOf<kQuery>(args, s));
  }
  if (prepared->fused == nullptr && s.d > kMaxHead) return nullptr;
  return prepared;
}

}  // namespace
}  // namespace attention

KernelList AttentionKernels() {
  return {OF_FLOAT_KERNELS("attention", attention::Attention, attention::AttentionWorkspace<0>, attention::Prepare<0>),
          OF_FLOAT_KERNELS("attention_grad", attention::AttentionGrad, attention::AttentionWorkspace<1>,
                           attention::Prepare<1>)};
}

}  // namespace oneflow::cuda
