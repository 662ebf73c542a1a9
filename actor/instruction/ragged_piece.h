// A piece of a copy as a box of ragged rows: which rows it has, and the place of their counts in a shard of counts.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/ragged.h"
#include "kernels/tensor_arg.h"

namespace oneflow {

// The box of `extent` that begins `offset` elements behind the beginning of `shard`, whose rows are dimension `dim`.
// REQUIRES: it lies within the shard (program_check.cc).
RowBox RowsOfPiece(const TensorArg& shard, int dim, int64_t offset, std::span<const int64_t> extent);

}  // namespace oneflow
