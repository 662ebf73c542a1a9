#include "actor/instruction/ragged_piece.h"

namespace oneflow {

RowBox RowsOfPiece(const TensorArg& shard, int dim, int64_t offset, std::span<const int64_t> extent) {
  RowBox box;
  box.groups.assign(extent.begin(), extent.begin() + dim);
  box.count_stride.resize(dim);
  box.rows = extent[dim];
  if (shard.count == 0) return box;
  int64_t stride = 1;  // of counts
  for (int d = shard.rank; d-- > 0;) {
    const int64_t at = offset % shard.dims[d];
    offset /= shard.dims[d];
    if (d == dim) box.first_row = shard.start[dim] + at;
    if (d >= dim) continue;
    box.count_stride[d] = stride;
    box.first_count += at * stride;
    stride *= shard.dims[d];
  }
  return box;
}

}  // namespace oneflow
