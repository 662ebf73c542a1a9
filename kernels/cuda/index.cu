// Elements by index, sums into elements by index, and the indices of the largest elements. A shard of the tensor that
// is indexed knows by its `start` what it holds: what lies outside it reads as zero and receives nothing, so that the
// shards' results add up. An index outside the whole tensor makes NaN of what it would read, and of the row or tensor
// that it would be added to: a launched kernel cannot return an error.
#include <cmath>
#include <cstdint>

#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/own_rows.cuh"
#include "kernels/sharded_rows.h"

namespace oneflow::cuda {
namespace {

// What a row outside the shard reads as.
__device__ float Outside(const ShardedRows& table, int64_t row) { return table.Exists(row) ? 0.0f : NAN; }

int RowAxisOf(const KernelArgs& args) { return static_cast<int>(args.attrs->Int("axis")); }

// in: x[P...,v,Q...], ids[I...]; out: y[P...,I...,Q...].
const char* Gather(const KernelArgs& args) {
  const ShardedRows table(args.in[0], RowAxisOf(args));
  const float* const x = args.in[0].as<const float>();
  const int32_t* const ids = args.in[1].as<const int32_t>();
  float* const y = args.out[0].as<float>();
  const auto gather = [=] __device__(int64_t i, int64_t outer, int64_t position, int64_t inner) {
    const int64_t id = ids[position], row = table.Find(id);
    y[i] = row >= 0 ? x[(outer * table.rows + row) * table.inner + inner] : Outside(table, id);
  };
  return ForEach(Stream(args), {table.outer, args.in[1].count, table.inner}, gather);
}

// The threads share the columns, which are all [outer, inner] of a row.
__global__ void ScatterKernel(ShardedRows table, Divisor<uint64_t> inner, int64_t n, const float* updates,
                              const int32_t* ids, float* sums) {
  __shared__ OwnEntries own;
  const int64_t columns = table.outer * table.inner;
  // Where a column begins in what has so many rows.
  const auto column_of = [&](int64_t column, int64_t rows) {
    const auto [outer, at] = inner.Divide(column);
    return static_cast<int64_t>(outer) * rows * table.inner + static_cast<int64_t>(at);
  };
  const auto fill = [&](int64_t begin, int64_t end, float value) {
    for (int64_t column = threadIdx.x; column < columns; column += kThreads) {
      float* const to = sums + column_of(column, table.rows);
      for (int64_t row = begin; row < end; ++row) to[row * table.inner] = value;
    }
  };
  ForOwnRows(table.rows, [&](int64_t begin, int64_t end) {
    fill(begin, end, 0);
    bool is_bad = false;
    for (int64_t piece = 0; piece < n; piece += kThreads) {
      const int64_t i = piece + threadIdx.x;
      is_bad = is_bad || (i < n && !table.Exists(ids[i]));
      const int count = own.List(i < n ? table.Find(ids[i]) : -1, begin, end);
      for (int64_t column = threadIdx.x; count > 0 && column < columns; column += kThreads) {
        const float* const from = updates + column_of(column, n);
        float* const to = sums + column_of(column, table.rows);
        for (int k = 0; k < count; ++k) to[own.row[k] * table.inner] += from[(piece + own.position[k]) * table.inner];
      }
    }
    if (__syncthreads_or(is_bad) != 0) fill(begin, end, NAN);
  });
}

// in: updates[P...,I...,Q...], ids[I...]; out: x[P...,v,Q...].
const char* ScatterAdd(const KernelArgs& args) {
  if (args.out[0].count == 0) return nullptr;
  const ShardedRows table(args.out[0], RowAxisOf(args));
  return Launch({Stream(args), Blocks(table.rows, kOwnRows)}, ScatterKernel, table, Divisor<uint64_t>(table.inner),
                args.in[1].count, args.in[0].as<const float>(), args.in[1].as<const int32_t>(),
                args.out[0].as<float>());
}

// in: x[T...,c], ids[T...,k]; out: y[T...,k].
const char* TakeAlong(const KernelArgs& args) {
  const ShardedRows table(args.in[0], args.in[0].rank - 1);
  const float* const x = args.in[0].as<const float>();
  const int32_t* const ids = args.in[1].as<const int32_t>();
  float* const y = args.out[0].as<float>();
  return ForEach(Stream(args), {table.outer, Columns(args.in[1])}, [=] __device__(int64_t i, int64_t row, int64_t) {
    const int64_t column = table.Find(ids[i]);
    y[i] = column >= 0 ? x[row * table.rows + column] : Outside(table, ids[i]);
  });
}

// A member of the team owns every kTeam-th column of a row and walks through all indices for them, so that the order of
// the sum is that of the indices.
template <int kTeam>
__global__ void PutKernel(int64_t rows, int64_t c, ShardedRows columns, int64_t k, const float* dy, const int32_t* ids,
                          float* x) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    float* const to = x + row * c;
    for (int64_t i = team.member(); i < c; i += kTeam) to[i] = 0;
    bool is_bad = false;
    for (int64_t j = row * k; j < (row + 1) * k; ++j) {
      const int64_t column = columns.Find(ids[j]);
      is_bad = is_bad || !columns.Exists(ids[j]);
      if (column >= 0 && column % kTeam == team.member()) to[column] += dy[j];
    }
    if (!is_bad) continue;
    for (int64_t i = team.member(); i < c; i += kTeam) to[i] = NAN;
  }
}

// in: dy[T...,k], ids[T...,k]; out: x[T...,c].
const char* PutAlong(const KernelArgs& args) {
  if (args.out[0].count == 0) return nullptr;
  const ShardedRows columns(args.out[0], args.out[0].rank - 1);
  return LaunchRows(args, columns.outer, columns.rows, PutKernel<kWarp>, PutKernel<kThreads>, columns,
                    Columns(args.in[0]), args.in[0].as<const float>(), args.in[1].as<const int32_t>(),
                    args.out[0].as<float>());
}

using Key = unsigned long long;  // what the shuffles of a warp take

// Larger for what comes first in the order of top_k: larger values, of equal ones the lower index, a NaN before all
// numbers. The upper half holds the value's bits so that they compare as it does, the lower half the index counted
// down. Neither 0 nor the largest there is.
__device__ Key KeyOf(float value, int64_t index) {
  const uint32_t bits = __float_as_uint(value == 0 ? 0.0f : value);  // -0 equals 0
  const uint32_t rising = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return Key{isnan(value) ? UINT32_MAX : rising} << 32 | (UINT32_MAX - 1 - static_cast<uint32_t>(index));
}
__device__ int64_t IndexOf(Key key) { return UINT32_MAX - 1 - static_cast<uint32_t>(key); }

// Finds the k largest one after the other: each is the largest of those that come after the last.
template <int kTeam>
__global__ void TopKernel(int64_t rows, int64_t c, int64_t k, const float* x, float* values, int32_t* indices) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    Key last = ~Key{0};
    for (int64_t j = row * k; j < (row + 1) * k; ++j) {
      Key best = 0;
      for (int64_t i = team.member(); i < c; i += kTeam) {
        const Key key = KeyOf(x[row * c + i], i);
        if (key < last && key > best) best = key;
      }
      last = Reduce<kTeam>(best, MaxOf());
      if (team.member() != 0) continue;
      values[j] = x[row * c + IndexOf(last)];
      indices[j] = static_cast<int32_t>(IndexOf(last));
    }
  }
}

// in: x[T...,c]; out: values[T...,k], indices[T...,k].
const char* TopK(const KernelArgs& args) {
  if (args.out[0].count == 0) return nullptr;
  return LaunchRows(args, Rows(args.in[0]), Columns(args.in[0]), TopKernel<kWarp>, TopKernel<kThreads>,
                    Columns(args.out[0]), args.in[0].as<const float>(), args.out[0].as<float>(),
                    args.out[1].as<int32_t>());
}

}  // namespace

KernelList IndexKernels() { return {OF_INDEX_KERNELS}; }

}  // namespace oneflow::cuda
