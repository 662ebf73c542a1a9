// What kernels that draw random numbers share: each LOGICAL element draws its own, so that a tensor does not depend on
// how it is cut. A shard is a sequence of runs that are contiguous in the logical tensor too.
#pragma once

#include "kernels/kernel.h"
#include "kernels/random.h"

namespace oneflow::cpu {

// How a shard's elements lie in the logical tensor: equally long runs. A micro-batch's elements are counted behind
// those of the micro-batches before it.
struct LogicalRuns {
  LogicalRuns(const TensorArg& x, int64_t micro_batch) : x(x) {
    outer_rank = x.rank;
    while (outer_rank > 0 && length * x.dims[outer_rank - 1] > 0) {
      length *= x.dims[--outer_rank];
      stride *= x.logical_dims[outer_rank];
      if (x.dims[outer_rank] != x.logical_dims[outer_rank]) break;  // a cut dimension is the outermost of a run
    }
    // The logical index of the shard's first element.
    int64_t dim_stride = 1;
    for (int i = x.rank; i-- > 0;) {
      first += x.start[i] * dim_stride;
      dim_stride *= x.logical_dims[i];
    }
    first += micro_batch * dim_stride;
  }
  // The logical index of the shard's element.
  uint64_t IndexOf(int64_t element) const {
    int64_t run = element / length, index = first + element % length, dim_stride = stride;
    for (int i = outer_rank; i-- > 0;) {
      index += run % x.dims[i] * dim_stride;
      run /= x.dims[i];
      dim_stride *= x.logical_dims[i];
    }
    return static_cast<uint64_t>(index);
  }
  const TensorArg& x;
  int outer_rank;      // dimensions that are not part of a run
  int64_t length = 1;  // of a run
  int64_t stride = 1;  // logical elements per step of dimension outer_rank - 1
  int64_t first = 0;
};

// What an act draws from.
struct RandomStream {
  explicit RandomStream(const KernelArgs& args)
      : key(RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key")))),
        step(static_cast<uint64_t>(args.step)) {}
  uint64_t key, step;
};

}  // namespace oneflow::cpu
