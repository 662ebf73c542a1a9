// Rows of a table by index, and the sum of gradients into such rows. A shard of the table knows which rows it holds by
// its `start`: rows outside it read as zero and receive nothing, so that the shards' results add up.
#include <algorithm>
#include <cstring>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

template <typename To>
void CopyRow(const float* from, To* to, int64_t n) {
  VecLoop(n, [&](int64_t i, auto lanes) { Store(to + i, Load(from + i, lanes), lanes); });
}
inline void CopyRow(const float* from, float* to, int64_t n) { std::memcpy(to, from, n * sizeof(float)); }

// Rows of a table of floats, rounded to what y holds.
template <typename To>
void LookUp(const TensorArg& w, const TensorArg& ids, To* y) {
  const int64_t h = w.dims[1], first = w.start[0], rows = w.dims[0];
  ParallelFor(ids.count, Grain((sizeof(float) + sizeof(To)) * h), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = ids.as<const int32_t>()[i] - first;
      if (row >= 0 && row < rows) {
        CopyRow(w.as<const float>() + row * h, y + i * h, h);
      } else {
        std::memset(y + i * h, 0, h * sizeof(To));
      }
    }
  });
}

// in: w[v,h], ids[T...].
const char* Embedding(const KernelArgs& args) {
  const TensorArg &w = args.in[0], &ids = args.in[1];
  for (int64_t i = 0; i < ids.count; ++i) {
    const int32_t id = ids.as<const int32_t>()[i];
    if (id < 0 || id >= w.logical_dims[0]) return "embedding: an index is outside the table";
  }
  return ByFloat(args.out[0].dtype, [&]<typename To>() { LookUp(w, ids, args.out[0].as<To>()); });
}

// Adds dy[T...,h] to the rows ids[T...] of out[v,h], f32. Threads share the columns, not the indices, so that every row
// is summed in the order of its indices.
template <typename T>
void AddRows(const TensorArg& gradient, const TensorArg& indices, const TensorArg& out) {
  const T* const dy = gradient.as<const T>();
  const int32_t* const ids = indices.as<const int32_t>();
  const int64_t h = out.dims[1], first = out.start[0], rows = out.dims[0], n = indices.count;
  float* const dw = out.as<float>();
  if (out.count == 0) return;
  const int64_t groups = (h + kLine - 1) / kLine;  // of columns: a cache line each
  ParallelFor(groups, Grain(2 * 64 * n), [&](int64_t begin, int64_t end) {
    const int64_t column = begin * kLine, columns = std::min(h, end * kLine) - column;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = ids[i] - first;
      if (row < 0 || row >= rows) continue;
      const T* const from = dy + i * h + column;
      float* const to = dw + row * h + column;
      VecLoop(columns,
              [&](int64_t j, auto lanes) { Store(to + j, Load(to + j, lanes) + Load(from + j, lanes), lanes); });
    }
  });
}

// in: dy, ids; out: dw.
template <typename T>
const char* EmbeddingGrad(const KernelArgs& args) {
  FillZero(args.out[0].data, static_cast<size_t>(args.out[0].count) * sizeof(float));
  AddRows<T>(args.in[0], args.in[1], args.out[0]);
  return nullptr;
}

// in: a[v,h], dy, ids; out: a and what is added to its rows. Where that is a's memory, other rows are not touched.
const char* AddEmbeddingGrad(const KernelArgs& args) {
  const TensorArg &a = args.in[0], &out = args.out[0];
  if (a.data != out.data) Convert(a.as<const float>(), out.as<float>(), out.count);
  return ByFloat(args.in[1].dtype, [&]<typename T>() { AddRows<T>(args.in[1], args.in[2], out); });
}

}  // namespace

KernelList EmbeddingKernels() {
  return {{"embedding", DType::kFloat32, Embedding},
          OF_FLOAT_KERNELS("embedding_grad", EmbeddingGrad),
          {"add_embedding_grad", DType::kFloat32, AddEmbeddingGrad}};
}

}  // namespace oneflow::cpu
