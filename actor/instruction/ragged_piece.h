// A piece of a copy as a box of ragged rows: which rows it has, and where a shard's counts say how many are filled.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/ragged.h"

namespace oneflow {

// Of the box of `extent` that begins `offset` elements behind the beginning of `shard`, whose rows are dimension `dim`.
// REQUIRES: it lies within the shard (program_check.cc).
RowBox RowsOfPiece(const TensorArg& shard, int dim, int64_t offset, std::span<const int64_t> extent);

}  // namespace oneflow
