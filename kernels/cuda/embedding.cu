// Rows of a table by index, and the sum of gradients into such rows, alone or on top of what is there. A shard of the
// table knows which rows it holds by its `start`: rows outside it read as zero and receive nothing, so that the shards'
// results add up. An index outside the whole table reads as NaN: a launched kernel cannot return an error.
#include <cmath>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

// Rows of a table of floats, rounded to what the output holds.
template <typename To>
const char* LookUp(const KernelArgs& args) {
  const TensorArg& table = args.in[0];
  const float* const w = table.as<const float>();
  const int32_t* const ids = args.in[1].as<const int32_t>();
  To* const y = args.out[0].as<To>();
  const int64_t h = table.dims[1], first = table.start[0], rows = table.dims[0], vocabulary = table.logical_dims[0];
  return ForEach(Stream(args), {args.in[1].count, h}, [=] __device__(int64_t i, int64_t position, int64_t column) {
    const int64_t id = ids[position], row = id - first;
    const float outside = id >= 0 && id < vocabulary ? 0.0f : NAN;
    y[i] = Narrow<To>(row >= 0 && row < rows ? w[row * h + column] : outside);
  });
}

// in: w[v,h], ids[T...].
const char* Embedding(const KernelArgs& args) {
  return ByFloat(args.out[0].dtype, [&]<typename To>() { return LookUp<To>(args); });
}

// Rows of the table that a block owns. More rows share one search through the indices; fewer use more of the GPU where
// the table is small. 8: a table of 50k rows makes 6k blocks.
constexpr int kRowsPerBlock = 8;

// A block searches all indices for its rows, 256 at a time; the threads share the columns. Nobody else writes these
// rows, and every element is summed by one thread in the order of the indices. What is there before: `a`, which may be
// dw itself; null: zeros.
template <typename T>
__global__ void EmbeddingGradKernel(int64_t n, int64_t first, int64_t rows, int64_t h, const float* a, const T* dy,
                                    const int32_t* ids, float* dw) {
  __shared__ int found[kThreads];  // positions in this piece of `ids`, ascending
  __shared__ int32_t id[kThreads];
  __shared__ int count_of_warp[kThreads / kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (int64_t begin = int64_t{blockIdx.x} * kRowsPerBlock; begin < rows; begin += int64_t{gridDim.x} * kRowsPerBlock) {
    const int64_t end = begin + kRowsPerBlock < rows ? begin + kRowsPerBlock : rows;
    if (a != dw) {
      for (int64_t i = begin * h + threadIdx.x; i < end * h; i += kThreads) dw[i] = a == nullptr ? 0.0f : a[i];
    }
    for (int64_t piece = 0; piece < n; piece += kThreads) {
      const int64_t i = piece + threadIdx.x;
      const int64_t row = i < n ? ids[i] - first : -1;
      const bool is_ours = row >= begin && row < end;
      const unsigned votes = __ballot_sync(0xffffffffu, is_ours);
      if (lane == 0) count_of_warp[warp] = __popc(votes);
      // Also a barrier for what is there before, and before the last piece's list is overwritten. Most pieces end here.
      if (__syncthreads_or(is_ours) == 0) continue;
      int at = __popc(votes & ((1u << lane) - 1)), count = 0;
      for (int w = 0; w < kThreads / kWarp; ++w) {
        if (w == warp) at += count;
        count += count_of_warp[w];
      }
      if (is_ours) {
        found[at] = threadIdx.x;
        id[at] = static_cast<int32_t>(row);
      }
      __syncthreads();
      for (int64_t column = threadIdx.x; column < h; column += kThreads) {
        for (int k = 0; k < count; ++k) dw[id[k] * h + column] += Widen(dy[(piece + found[k]) * h + column]);
      }
    }
  }
}

template <typename T>
const char* AddRows(const KernelArgs& args, const float* a, const TensorArg& dy, const TensorArg& ids) {
  const TensorArg& out = args.out[0];
  if (out.count == 0) return nullptr;
  const int64_t rows = out.dims[0];
  return Launch({Stream(args), Blocks(rows, kRowsPerBlock)}, EmbeddingGradKernel<T>, ids.count, out.start[0], rows,
                out.dims[1], a, dy.as<const T>(), ids.as<const int32_t>(), out.as<float>());
}

// in: dy[T...,h], ids[T...]; out: dw[v,h].
template <typename T>
const char* EmbeddingGrad(const KernelArgs& args) {
  return AddRows<T>(args, nullptr, args.in[0], args.in[1]);
}

// in: a[v,h], dy, ids; out: a and what is added to its rows. Where that is a's memory, other rows are not touched.
const char* AddEmbeddingGrad(const KernelArgs& args) {
  return ByFloat(args.in[1].dtype,
                 [&]<typename T>() { return AddRows<T>(args, args.in[0].as<const float>(), args.in[1], args.in[2]); });
}

}  // namespace

KernelList EmbeddingKernels() {
  return {{"embedding", DType::kFloat32, Embedding},
          OF_FLOAT_KERNELS("embedding_grad", EmbeddingGrad),
          {"add_embedding_grad", DType::kFloat32, AddEmbeddingGrad}};
}

}  // namespace oneflow::cuda
