// Elements by index, sums into elements by index, and the indices of the largest elements. A shard of the tensor that
// is indexed knows by its `start` what it holds: what lies outside it reads as zero and receives nothing, so that the
// shards' results add up.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
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

// Numbers in the order of their floats; that of a NaN is the largest. Both zeros have the same.
uint32_t OrderOf(float x) {
  if (x != x) return UINT32_MAX;
  const auto bits = x == 0 ? 0 : std::bit_cast<uint32_t>(x);
  return bits >> 31 != 0 ? ~bits : bits | (uint32_t{1} << 31);
}

// Of the k first ones of a row, the order of the last, and how many of that order are among them.
struct LastOfFirst {
  uint32_t order = 0;
  int64_t count = 0;
};

// k in [1, x.size()]. Counts how many there are of each value of the highest bits, then, of those that agree with the
// last one in these, of the bits behind: three times over the row.
LastOfFirst FindLast(std::span<const float> x, int64_t k) {
  constexpr int kBits = 11;
  LastOfFirst last = {0, k};
  for (int top = 32; top > 0;) {
    const int shift = std::max(0, top - kBits);
    const uint32_t most = (uint32_t{1} << (top - shift)) - 1;
    std::array<uint32_t, 1 << kBits> counts = {};
    for (const float value : x) {
      const uint32_t order = OrderOf(value);
      if (uint64_t{order ^ last.order} >> top == 0) ++counts[(order >> shift) & most];
    }
    uint32_t bin = most;
    while (counts[bin] < last.count) last.count -= counts[bin--];
    last.order |= bin << shift;
    top = shift;
  }
  return last;
}

void FirstOfRow(std::span<const float> x, std::span<int32_t> indices) {
  // Where a heap of the first ones is small, and few elements get into it, it takes less time than counting.
  constexpr size_t kOfHeap = 32;
  const ComesFirst comes_first{x.data()};
  if (indices.size() <= kOfHeap) {
    std::ranges::partial_sort_copy(std::views::iota(int32_t{0}, static_cast<int32_t>(x.size())), indices, comes_first);
    return;
  }
  LastOfFirst last = FindLast(x, static_cast<int64_t>(indices.size()));
  int32_t* to = indices.data();
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t order = OrderOf(x[i]);
    if (order < last.order || (order == last.order && last.count-- <= 0)) continue;
    *to++ = static_cast<int32_t>(i);
  }
  std::ranges::sort(indices, comes_first);
}

// in: x[T...,c]; out: values[T...,k], indices[T...,k].
const char* TopK(const KernelArgs& args) {
  const auto c = static_cast<size_t>(Columns(args.in[0])), k = static_cast<size_t>(Columns(args.out[0]));
  ParallelFor(Rows(args.in[0]), Grain(static_cast<int64_t>(4 * sizeof(float) * c)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const std::span x(args.in[0].as<const float>() + row * c, c);
      const std::span indices(args.out[1].as<int32_t>() + row * k, k);
      FirstOfRow(x, indices);
      std::ranges::transform(indices, args.out[0].as<float>() + row * k, [&](int32_t i) { return x[i]; });
    }
  });
  return nullptr;
}

}  // namespace

KernelList IndexKernels() { return {OF_INDEX_KERNELS}; }

}  // namespace oneflow::cpu
