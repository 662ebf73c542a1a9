// What kernels that draw random numbers share: each LOGICAL element draws its own, so that a tensor does not depend on
// how it is cut.
#pragma once

#include <vector>

#include "kernels/cuda/loops.cuh"
#include "kernels/random.h"

namespace oneflow::cuda {

// The logical index of a shard's elements, less that of the first, which `first` is, of `whole` elements; uncut
// dimensions are merged into the next outer one.
inline std::vector<LoopDim<1>> LogicalIndices(const TensorArg& x, uint64_t* first, uint64_t* whole) {
  std::vector<LoopDim<1>> dims(x.rank);
  int64_t stride = 1, start = 0;
  for (int i = x.rank; i-- > 0;) {
    dims[i] = {x.dims[i], {stride}};
    start += x.start[i] * stride;
    stride *= x.logical_dims[i];
  }
  *first = static_cast<uint64_t>(start);
  *whole = static_cast<uint64_t>(stride);
  return Merged<1>(dims);
}

// What a call draws from. A micro-batch's elements are counted behind those of the micro-batches before it.
struct Draw {
  // The logical index of the shard's first element.
  __device__ uint64_t First(const ActNumbers& act) const {
    return first + static_cast<uint64_t>(act.micro_batch) * whole;
  }
  uint64_t key;
  uint64_t first, whole;  // of a micro-batch's elements
};

// For the elements of the shard x, whose indices come from `logical`.
inline Draw DrawOf(const KernelArgs& args, const TensorArg& x, std::vector<LoopDim<1>>* logical) {
  Draw draw = {RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key"))),
               0, 0};
  *logical = LogicalIndices(x, &draw.first, &draw.whole);
  return draw;
}

}  // namespace oneflow::cuda
