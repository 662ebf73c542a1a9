// Rows of a table by index, and the sum of gradients into such rows, alone or on top of what is there. A shard of the
// table knows which rows it holds by its `start`: rows outside it read as zero and receive nothing, so that the shards'
// results add up. An index outside the whole table reads as NaN: a launched kernel cannot return an error.
#include <cmath>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/own_rows.cuh"

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

// A block takes kThreads columns of its rows, each thread one. It adds up in memory of the block: many of the indices
// may be of one row, and a sum in memory of the device would wait for it each time. What is there before: `a`, which
// may be dw itself; null: zeros.
template <typename T>
__global__ void EmbeddingGradKernel(int64_t n, int64_t first, int64_t rows, int64_t h, Divisor<uint64_t> strips,
                                    int64_t tasks, const float* a, const T* dy, const int32_t* ids, float* dw) {
  constexpr int kAtOnce = 8;  // reads on their way
  __shared__ OwnEntries own;
  __shared__ float sums[kOwnRows][kThreads];
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const auto [run, strip] = strips.Divide(static_cast<uint64_t>(task));
    const int64_t begin = static_cast<int64_t>(run) * kOwnRows, end = begin + kOwnRows < rows ? begin + kOwnRows : rows;
    const int64_t column = static_cast<int64_t>(strip) * kThreads + threadIdx.x;
    const bool is_column = column < h;
    for (int64_t row = begin; row < end && is_column; ++row) {
      sums[row - begin][threadIdx.x] = a == nullptr ? 0.0f : a[row * h + column];
    }
    bool changed = a != dw;
    for (int64_t piece = 0; piece < n; piece += kThreads) {
      const int64_t i = piece + threadIdx.x;
      const int count = own.List(i < n ? ids[i] - first : -1, begin, end);
      changed = changed || count > 0;
      for (int k = 0; k < count && is_column; k += kAtOnce) {
        float read[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          read[j] = k + j < count ? Widen(dy[(piece + own.position[k + j]) * h + column]) : 0.0f;
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (k + j < count) sums[own.row[k + j] - begin][threadIdx.x] += read[j];
        }
      }
    }
    for (int64_t row = begin; row < end && is_column && changed; ++row) {
      dw[row * h + column] = sums[row - begin][threadIdx.x];
    }
  }
}

template <typename T>
const char* AddRows(const KernelArgs& args, const float* a, const TensorArg& dy, const TensorArg& ids) {
  const TensorArg& out = args.out[0];
  if (out.count == 0) return nullptr;
  const int64_t rows = out.dims[0], h = out.dims[1];
  const int64_t strips = (h + kThreads - 1) / kThreads, tasks = (rows + kOwnRows - 1) / kOwnRows * strips;
  return Launch({Stream(args), Blocks(tasks, 1)}, EmbeddingGradKernel<T>, ids.count, out.start[0], rows, h,
                Divisor<uint64_t>(strips), tasks, a, dy.as<const T>(), ids.as<const int32_t>(), out.as<float>());
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
