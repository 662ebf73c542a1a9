// Reductions over any set of dimensions, for several kernels. Sums are carried in pairs of floats. Their order depends
// on the shapes only; there are no atomics.
#pragma once

#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/loops.h"
#include "kernels/reduced_dims.h"

namespace oneflow::cuda {

// Which elements of x make up which element of y. Neighbouring dimensions that are both kept or both reduced are
// merged.
struct Groups {
  Groups(const TensorArg& x, const std::vector<bool>& is_reduced);

  // False if more dimensions remain than a kernel holds.
  bool is_valid() const { return kept.size() <= kMaxRank && reduced.size() <= kMaxRank; }

  bool inner_reduced = false;  // the innermost dimension is
  int64_t outputs = 1;         // elements of y
  int64_t terms = 1;           // elements of x in each of them
  std::vector<LoopDim<1>> kept, reduced;
};

// Bytes for the partial results of a reduction that is split.
size_t ReduceWorkspace(const Groups& groups);

// out[0] = sum of in[0], whose elements are floating, over its reduced dimensions. REQUIRES: args.workspace holds
// ReduceWorkspace(groups) bytes.
const char* LaunchSum(const KernelArgs& args, const Groups& groups);

}  // namespace oneflow::cuda
