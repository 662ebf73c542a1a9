// A box of ragged rows on its way from one shard to another: of each group's rows an act copies those that the counts
// beside its source say.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/copy.h"
#include "kernels/device.h"
#include "kernels/ragged.h"

namespace oneflow {

class RaggedPiece {
 public:
  // The box `copy`, whose spans it borrows, `offset` elements from the beginning of `source`; `dim` is the dimension of
  // the rows. REQUIRES: it is a box of the source's shard (program_check.cc).
  RaggedPiece(const CopyRegionArgs& copy, int64_t offset, const TensorArg& source, int dim);

  // Copies what is filled between the addresses in `copy`, and adds to `bytes` how much that is. Null, or what the
  // device says.
  const char* Run(DeviceContext& device, const CopyRegionArgs& copy, const TensorArg& counts, int64_t* bytes);

 private:
  // The next group of the piece, the last dimension fastest; false after the last.
  bool Advance(const CopyRegionArgs& copy);

  const int dim_;
  const RaggedRows rows_;
  const bool empty_;
  int64_t first_row_ = 0;             // of the piece, in its source's shard
  std::vector<int64_t> first_group_;  // likewise
  std::vector<int64_t> group_;        // the one in hand, counted in the piece
  std::vector<int64_t> extent_;       // of what is copied of it
};

}  // namespace oneflow
