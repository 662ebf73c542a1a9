// Copies and reductions of boxes of dense tensors in host memory. Boxing on CPUs and the layout kernels (transpose,
// slice, concat) are built on them. They work on any memory that the host can address, a peer's included.
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
  // First elements of further boxes, with the strides of the source. They are combined with it in this order, sums of
  // narrow types as f32, and the target is written once. The host must be able to address them.
  std::span<const void* const> addends = {};
};

// Null, or a static string that says what is wrong: ranks that differ, or `accumulate` on bool. Empty boxes are fine.
// Uses the calling thread's OpenMP threads for large boxes; the result does not depend on their number.
const char* CopyRegion(const CopyRegionArgs& args);

// A copy of the filled rows of a box of ragged rows. On a packed side the filled rows are contiguous from its first
// element on, and its strides are ignored.
struct CopyRowsArgs {
  CopyRegionArgs box;  // all rows; the extents are those of the groups, then the rows, then one row
  const RowBox& rows;
  const int32_t* counts = nullptr;  // filled rows of each group of the shard; readable by the device that copies
  bool source_packed = false;
  bool target_packed = false;
};

// As CopyRegion. Neighbouring groups that are filled alike are copied at once.
const char* CopyRows(const CopyRowsArgs& args);

// The number of filled rows, over all groups.
int64_t CountRows(const RowBox& rows, const int32_t* counts);

// Sets bytes to zero, with all threads for large areas.
void FillZero(void* target, size_t num_bytes);

}  // namespace oneflow
