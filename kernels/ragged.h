// The rows of a ragged operand: how many of them are filled, of those that a shard holds. Standard library only, so
// that CUDA sources may include it.
#pragma once

#include "kernels/families.h"
#include "kernels/host_device.h"

namespace oneflow {

// A tensor as [groups, rows, inner]: `dim` is the dimension of its rows. A kernel parameter.
struct RaggedRows {
  RaggedRows(const TensorArg& x, int dim)
      : groups(Product(x, 0, dim)),
        rows(x.dims[dim]),
        inner(Product(x, dim + 1, x.rank)),
        first(x.start[dim]),
        logical_rows(x.logical_dims[dim]) {}
  // Of the shard's rows of a group those that lie before its count; a count outside the tensor is no more than a place.
  OF_HOST_DEVICE int64_t Filled(int32_t count) const {
    const int64_t filled = count - first;
    return filled < 0 ? 0 : filled > rows ? rows : filled;
  }
  OF_HOST_DEVICE bool Exists(int32_t count) const { return count >= 0 && count <= logical_rows; }

  int64_t groups, rows, inner;
  int64_t first;         // of the shard's, among all
  int64_t logical_rows;  // all
};

}  // namespace oneflow
