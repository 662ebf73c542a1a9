#include "actor/instruction/ragged_piece.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace oneflow {

RaggedPiece::RaggedPiece(const CopyRegionArgs& copy, int64_t offset, const TensorArg& source, int dim)
    : dim_(dim),
      rows_(source, dim),
      empty_(std::find(copy.extent.begin(), copy.extent.end(), 0) != copy.extent.end()),
      first_group_(dim),
      group_(dim),
      extent_(copy.extent.begin() + dim, copy.extent.end()) {
  if (empty_) return;
  for (int d = source.rank; d-- > 0;) {
    const int64_t at = offset % source.dims[d];
    offset /= source.dims[d];
    if (d == dim) first_row_ = at;
    if (d < dim) first_group_[d] = at;
  }
}

bool RaggedPiece::Advance(const CopyRegionArgs& copy) {
  for (int d = dim_; d-- > 0;) {
    if (++group_[d] < copy.extent[d]) return true;
    group_[d] = 0;
  }
  return false;
}

const char* RaggedPiece::Run(DeviceContext& device, const CopyRegionArgs& copy, const TensorArg& counts,
                             int64_t* bytes) {
  if (empty_) return nullptr;
  const int64_t size = static_cast<int64_t>(SizeOf(copy.dtype));
  CopyRegionArgs rows = copy;
  rows.extent = extent_;
  rows.source_stride = copy.source_stride.subspan(dim_);
  rows.target_stride = copy.target_stride.subspan(dim_);
  do {
    int64_t position = 0, source = 0, target = 0;
    for (int d = 0; d < dim_; ++d) {
      position = position * counts.dims[d] + first_group_[d] + group_[d];
      source += group_[d] * copy.source_stride[d];
      target += group_[d] * copy.target_stride[d];
    }
    const int64_t filled = rows_.Filled(counts.as<const int32_t>()[position]) - first_row_;
    extent_[0] = std::clamp<int64_t>(filled, 0, copy.extent[dim_]);
    rows.source = static_cast<const char*>(copy.source) + source * size;
    rows.target = static_cast<char*>(copy.target) + target * size;
    if (const char* error = device.CopyRegion(rows); error != nullptr) return error;
    *bytes += std::accumulate(extent_.begin(), extent_.end(), size, std::multiplies<>());
  } while (Advance(copy));
  return nullptr;
}

}  // namespace oneflow
