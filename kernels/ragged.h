// The filled rows of ragged operands: how many of a shard's or a box's rows are filled. Standard library only, so that
// CUDA sources may include it.
#pragma once

#include <vector>

#include "kernels/sharded_rows.h"

namespace oneflow {

// The number of filled rows among rows [first, first + rows) of a group of `count` filled rows. A count outside the
// tensor is clamped.
OF_HOST_DEVICE inline int64_t FilledRows(int32_t count, int64_t first, int64_t rows) {
  const int64_t filled = count - first;
  return filled < 0 ? 0 : filled > rows ? rows : filled;
}

// A tensor as [groups, rows, inner]. A value that CUDA kernels take as a parameter.
struct RaggedRows : ShardedRows {
  using ShardedRows::ShardedRows;
  OF_HOST_DEVICE int64_t Filled(int32_t count) const { return FilledRows(count, first, rows); }
  // Whether a group can have `count` rows.
  OF_HOST_DEVICE bool Allows(int32_t count) const { return count >= 0 && count <= logical_rows; }
};

// The rows of a box of groups, and where their counts are among the shard's.
struct RowBox {
  int64_t Filled(int32_t count) const { return FilledRows(count, first_row, rows); }

  std::vector<int64_t> groups;        // extent in each dimension before the rows
  std::vector<int64_t> count_stride;  // in each of these, of the counts
  int64_t first_count = 0;            // of the first group, among the counts of the shard
  int64_t first_row = 0;              // of the box, among those that are counted
  int64_t rows = 0;                   // of each group
};

}  // namespace oneflow
