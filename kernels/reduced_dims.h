// Which dimensions of a tensor the kernels of reductions reduce, for all devices.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace oneflow {

inline int64_t WrappedAxis(const TensorArg& x, int64_t axis) { return axis < 0 ? axis + x.rank : axis; }

// Those that the attribute `axes` names; a negative axis counts from the last.
inline std::vector<bool> ReducedAxes(const TensorArg& x, const AttrMap& attrs) {
  std::vector<bool> is_reduced(x.rank, false);
  for (const int64_t axis : attrs.Ints("axes")) is_reduced[WrappedAxis(x, axis)] = true;
  return is_reduced;
}

// The elements of the logical tensor that one result is made of.
inline int64_t LogicalTerms(const TensorArg& x, const AttrMap& attrs) {
  int64_t terms = 1;
  for (const int64_t axis : attrs.Ints("axes")) terms *= x.logical_dims[WrappedAxis(x, axis)];
  return terms;
}

// The leading dimensions that y lacks, and those in which it has one element.
inline std::vector<bool> ReducedTo(const TensorArg& x, const TensorArg& y) {
  std::vector<bool> is_reduced(x.rank, true);
  for (int i = 0; i < y.rank; ++i) {
    const int axis = x.rank - y.rank + i;
    is_reduced[axis] = y.dims[i] != x.dims[axis];
  }
  return is_reduced;
}

}  // namespace oneflow
