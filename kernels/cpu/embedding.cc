// Rows of a table by index, and the sum of gradients into such rows. A shard of the table knows which rows it holds by
// its `start`: rows outside it read as zero and receive nothing, so that the shards' results add up.
#include <algorithm>
#include <cstring>

#include "kernels/copy.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// in: w[v,h], ids[T...].
const char* Embedding(const KernelArgs& args) {
  const TensorArg& w = args.in[0];
  const int32_t* const ids = args.in[1].as<const int32_t>();
  float* const y = args.out[0].as<float>();
  const int64_t h = w.dims[1], first = w.start[0], rows = w.dims[0], vocabulary = w.logical_dims[0];
  const int64_t n = args.in[1].count;
  for (int64_t i = 0; i < n; ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) return "embedding: an index is outside the table";
  }
  ParallelFor(n, Grain(2 * sizeof(float) * h), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = ids[i] - first;
      if (row >= 0 && row < rows) {
        std::memcpy(y + i * h, w.as<const float>() + row * h, h * sizeof(float));
      } else {
        std::memset(y + i * h, 0, h * sizeof(float));
      }
    }
  });
  return nullptr;
}

// in: dy[T...,h], ids[T...]; out: dw[v,h]. Threads share the columns, not the indices, so that every row is summed in
// the order of its indices.
const char* EmbeddingGrad(const KernelArgs& args) {
  const float* const dy = args.in[0].as<const float>();
  const int32_t* const ids = args.in[1].as<const int32_t>();
  const TensorArg& out = args.out[0];
  const int64_t h = out.dims[1], first = out.start[0], rows = out.dims[0], n = args.in[1].count;
  float* const dw = out.as<float>();
  FillZero(dw, static_cast<size_t>(out.count) * sizeof(float));
  if (out.count == 0) return nullptr;
  const int64_t groups = (h + kLanes - 1) / kLanes;  // of columns: a cache line each
  ParallelFor(groups, Grain(2 * 64 * n), [&](int64_t begin, int64_t end) {
    const int64_t column = begin * kLanes, columns = std::min(h, end * kLanes) - column;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = ids[i] - first;
      if (row < 0 || row >= rows) continue;
      const float* const from = dy + i * h + column;
      float* const to = dw + row * h + column;
      VecLoop(columns,
              [&](int64_t j, auto lanes) { Store(to + j, Load(to + j, lanes) + Load(from + j, lanes), lanes); });
    }
  });
  return nullptr;
}

}  // namespace

KernelList EmbeddingKernels() {
  return {{"embedding", DType::kFloat32, Embedding}, {"embedding_grad", DType::kFloat32, EmbeddingGrad}};
}

}  // namespace oneflow::cpu
