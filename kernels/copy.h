// Copies and combinations of boxes of dense tensors in host memory: what boxing is made of on cpu devices, and what the
// layout kernels (transpose, slice, concat) are built on. Works on any memory that the host can address, a peer's
// included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "oneflow_core/dtype.h"
#include "oneflow_core/sbp.h"

namespace oneflow {

struct RowBox;  // kernels/ragged.h

// One box of `extent` elements per dimension. Strides are in elements, may be 0 (broadcast, source only) and need not
// be sorted by size, so a permutation is a copy too. The two boxes must not overlap unless they are the same.
struct CopyRegionArgs {
  DType dtype = DType::kFloat32;
  std::span<const int64_t> extent;
  const void* source = nullptr;  // its first element: the caller has added the offset
  std::span<const int64_t> source_stride;
  void* target = nullptr;
  std::span<const int64_t> target_stride;
  // Whether to combine with what the target holds (target = target reduce source) or to overwrite it.
  bool accumulate = false;
  Reduction reduce = Reduction::kSum;
  // First elements of further boxes with the strides of the source, combined with it in this order: the target is
  // written once, not for each. Of memory that the host can address.
  std::span<const void* const> addends = {};
};

// Null, or a static string that says what is wrong: ranks that differ, or `accumulate` on bool. Empty boxes are fine.
// Uses the calling thread's OpenMP threads for large boxes; the result does not depend on their number.
const char* CopyRegion(const CopyRegionArgs& args);

// Of a box of ragged rows those that are filled. A side that is packed has them one behind the other from its first
// element on, and nothing between; its strides are not looked at.
struct CopyRowsArgs {
  CopyRegionArgs box;  // all of its rows: the extents are those of the groups, of the rows, and of a row
  const RowBox& rows;
  const int32_t* counts = nullptr;  // of a shard of which `rows` is a box; where who copies can read them
  bool source_packed = false;
  bool target_packed = false;
};

// As CopyRegion. Neighbouring groups that are filled alike are copied at once.
const char* CopyRows(const CopyRowsArgs& args);

// How many rows that is, over all groups.
int64_t CountRows(const RowBox& rows, const int32_t* counts);

// Sets bytes to zero, with all threads for large areas.
void FillZero(void* target, size_t num_bytes);

}  // namespace oneflow
