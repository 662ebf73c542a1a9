// Reductions over any set of dimensions, for the kernels that need them. Sums are carried in double and their order
// depends on the shapes only: no atomics.
#pragma once

#include <vector>

#include "kernels/cuda/kernels.h"

namespace oneflow::cuda {

struct StridedDims {
  int rank = 0;  // outermost first
  int64_t extent[kMaxRank], stride[kMaxRank];
};

// Where element `index` of the row-major index space of `dims` lies.
__device__ inline int64_t Offset(const StridedDims& dims, int64_t index) {
  if (dims.rank == 1) return index * dims.stride[0];  // the common case needs no division
  int64_t offset = 0;
  for (int i = dims.rank; i-- > 0;) {
    offset += index % dims.extent[i] * dims.stride[i];
    index /= dims.extent[i];
  }
  return offset;
}

// Which elements of x make up which element of y. Neighbouring dimensions that are both kept or both reduced are
// merged.
struct Groups {
  Groups(const TensorArg& x, const std::vector<bool>& is_reduced);

  bool is_valid = true;        // false: more dimensions than kMaxRank remain
  bool inner_reduced = false;  // the innermost dimension is
  int64_t outputs = 1;         // elements of y
  int64_t terms = 1;           // elements of x in each of them
  StridedDims kept, reduced;
};

// Partial results for reductions that are cut.
size_t ReduceWorkspace(const Groups& groups);

// y = scale * sum of in[0] over its reduced dimensions. REQUIRES: args.workspace holds ReduceWorkspace(groups) bytes.
const char* LaunchSum(const KernelArgs& args, const Groups& groups, float* y, double scale = 1);

}  // namespace oneflow::cuda
