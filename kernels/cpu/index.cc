// Elements by index, sums into elements by index, and the indices of the largest elements. A shard of the tensor that
// is indexed knows by its `start` what it holds: what lies outside it reads as zero and receives nothing, so that the
// shards' results add up.
#include <algorithm>
#include <cstring>
#include <ranges>
#include <span>

#include "kernels/copy.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"
#include "kernels/sharded_rows.h"

namespace oneflow::cpu {
namespace {

bool AreBelow(const TensorArg& ids, int64_t size) {
  const int32_t* const id = ids.as<const int32_t>();
  return std::all_of(id, id + ids.count, [&](int32_t i) { return i >= 0 && i < size; });
}

int AxisOf(const KernelArgs& args) { return static_cast<int>(args.attrs->Int("axis")); }

// in: x[P...,v,Q...], ids[I...]; out: y[P...,I...,Q...].
const char* Gather(const KernelArgs& args) {
  const ShardedRows x(args.in[0], AxisOf(args));
  const TensorArg& ids = args.in[1];
  if (!AreBelow(ids, x.logical_rows)) return "gather: an index is outside the dimension";
  const float* const from = args.in[0].as<const float>();
  float* const y = args.out[0].as<float>();
  const size_t num_bytes = static_cast<size_t>(x.inner) * sizeof(float);
  ParallelFor(x.outer * ids.count, Grain(2 * sizeof(float) * x.inner), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = x.Find(ids.as<const int32_t>()[i % ids.count]);
      if (row >= 0) {
        std::memcpy(y + i * x.inner, from + (i / ids.count * x.rows + row) * x.inner, num_bytes);
      } else {
        std::memset(y + i * x.inner, 0, num_bytes);
      }
    }
  });
  return nullptr;
}

// in: updates[P...,I...,Q...], ids[I...]; out: x[P...,v,Q...]. Threads share the columns, not the indices, so that
// every element is summed in the order of its indices.
const char* ScatterAdd(const KernelArgs& args) {
  const ShardedRows x(args.out[0], AxisOf(args));
  const TensorArg& ids = args.in[1];
  if (!AreBelow(ids, x.logical_rows)) return "scatter_add: an index is outside the dimension";
  const float* const updates = args.in[0].as<const float>();
  float* const sums = args.out[0].as<float>();
  FillZero(sums, static_cast<size_t>(args.out[0].count) * sizeof(float));
  const int64_t groups = (x.inner + kLine - 1) / kLine;  // of columns: a cache line each
  ParallelFor(x.outer * groups, Grain(2 * 64 * ids.count), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin, stop; task < end; task = stop) {
      const int64_t outer = task / groups;
      stop = std::min(end, (outer + 1) * groups);
      const int64_t column = (task - outer * groups) * kLine;
      const int64_t columns = std::min(x.inner, (stop - outer * groups) * kLine) - column;
      for (int64_t i = 0; i < ids.count; ++i) {
        const int64_t row = x.Find(ids.as<const int32_t>()[i]);
        if (row < 0) continue;
        const float* const from = updates + (outer * ids.count + i) * x.inner + column;
        float* const to = sums + (outer * x.rows + row) * x.inner + column;
        VecLoop(columns,
                [&](int64_t j, auto lanes) { Store(to + j, Load(to + j, lanes) + Load(from + j, lanes), lanes); });
      }
    }
  });
  return nullptr;
}

// in: x[T...,c], ids[T...,k]; out: y[T...,k].
const char* TakeAlong(const KernelArgs& args) {
  const ShardedRows x(args.in[0], args.in[0].rank - 1);
  if (!AreBelow(args.in[1], x.logical_rows)) return "take_along: an index is no column";
  const int64_t k = Columns(args.in[1]);
  const int32_t* const ids = args.in[1].as<const int32_t>();
  float* const y = args.out[0].as<float>();
  ParallelFor(args.out[0].count, Grain(3 * sizeof(float)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = x.Find(ids[i]);
      y[i] = column >= 0 ? args.in[0].as<const float>()[i / k * x.rows + column] : 0.0f;
    }
  });
  return nullptr;
}

// in: dy[T...,k], ids[T...,k]; out: x[T...,c].
const char* PutAlong(const KernelArgs& args) {
  const ShardedRows x(args.out[0], args.out[0].rank - 1);
  if (!AreBelow(args.in[1], x.logical_rows)) return "put_along: an index is no column";
  const int64_t k = Columns(args.in[1]);
  ParallelFor(x.outer, Grain(sizeof(float) * (2 * k + x.rows)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const dy = args.in[0].as<const float>() + row * k;
      const int32_t* const ids = args.in[1].as<const int32_t>() + row * k;
      float* const to = args.out[0].as<float>() + row * x.rows;
      std::fill(to, to + x.rows, 0.0f);
      for (int64_t j = 0; j < k; ++j) {
        if (const int64_t column = x.Find(ids[j]); column >= 0) to[column] += dy[j];
      }
    }
  });
  return nullptr;
}

// The order of top_k: larger values first, of equal ones the lower index. A NaN comes before all numbers, so that it is
// seen.
struct ComesFirst {
  const float* x;
  bool operator()(int32_t i, int32_t j) const {
    const bool i_is_nan = x[i] != x[i], j_is_nan = x[j] != x[j];
    if (i_is_nan != j_is_nan) return i_is_nan;
    if (!i_is_nan && x[i] != x[j]) return x[i] > x[j];
    return i < j;
  }
};

// in: x[T...,c]; out: values[T...,k], indices[T...,k]. The best k so far are kept as a heap where the indices will be.
const char* TopK(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), k = Columns(args.out[0]);
  ParallelFor(Rows(args.in[0]), Grain(4 * sizeof(float) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const x = args.in[0].as<const float>() + row * c;
      const std::span<int32_t> indices(args.out[1].as<int32_t>() + row * k, static_cast<size_t>(k));
      std::ranges::partial_sort_copy(std::views::iota(int32_t{0}, static_cast<int32_t>(c)), indices, ComesFirst{x});
      std::transform(indices.begin(), indices.end(), args.out[0].as<float>() + row * k,
                     [&](int32_t i) { return x[i]; });
    }
  });
  return nullptr;
}

}  // namespace

KernelList IndexKernels() { return {OF_INDEX_KERNELS}; }

}  // namespace oneflow::cpu
