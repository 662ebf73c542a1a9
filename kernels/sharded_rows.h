// A tensor as [outer, rows, inner] around one of its dimensions, whose extent counts as rows, and which of the logical
// tensor's rows a shard holds. A value that CUDA kernels take as a parameter.
#pragma once

#include "kernels/host_device.h"
#include "kernels/tensor_arg.h"

namespace oneflow {

struct ShardedRows {
  ShardedRows(const TensorArg& x, int dim)
      : outer(Product(x, 0, dim)),
        rows(x.dims[dim]),
        inner(Product(x, dim + 1, x.rank)),
        first(x.start[dim]),
        logical_rows(x.logical_dims[dim]) {}
  // Whether the logical tensor has such a row.
  OF_HOST_DEVICE bool Exists(int64_t row) const { return row >= 0 && row < logical_rows; }
  // Where a logical row lies in the shard, or -1.
  OF_HOST_DEVICE int64_t Find(int64_t row) const { return row >= first && row < first + rows ? row - first : -1; }

  int64_t outer, rows, inner;
  int64_t first;         // the shard's first row, among the logical ones
  int64_t logical_rows;  // of all shards
};

}  // namespace oneflow
