// dropout: y = keep ? x / (1 - rate) : 0, where each LOGICAL element draws its own bits, so that the result is the same
// however the tensor is cut and the gradient is the same kernel on dy.
//
// A shard is a sequence of runs that are contiguous in the logical tensor too.
#include <algorithm>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/vec.h"
#include "kernels/random.h"

namespace oneflow::cpu {
namespace {

// How a shard's elements lie in the logical tensor: equally long runs, the r-th of which starts at Base(r).
struct Runs {
  explicit Runs(const TensorArg& x) : x(x) {
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
  }
  int64_t Base(int64_t run) const {
    int64_t base = first, dim_stride = stride;
    for (int i = outer_rank; i-- > 0;) {
      base += run % x.dims[i] * dim_stride;
      run /= x.dims[i];
      dim_stride *= x.logical_dims[i];
    }
    return base;
  }
  const TensorArg& x;
  int outer_rank;      // dimensions that are not part of a run
  int64_t length = 1;  // of a run
  int64_t stride = 1;  // logical elements per step of dimension outer_rank - 1
  int64_t first = 0;
};

struct Draw {
  uint64_t key, step;
  uint32_t threshold;  // keep iff the upper 24 bits are at least this
  float scale;

  // Elements [0, n) whose logical indices begin at `index`.
  template <typename T>
  void Apply(const T* x, T* y, int64_t n, uint64_t index) const {
    ForRandomBits(key, step, index, n, [&](int64_t i, U32s bits, auto lanes) OF_INLINED {
      Store(y + i, (bits >> 8) >= threshold ? Load(x + i, lanes) * scale : Splat(0), lanes);
    });
  }
};

template <typename T>
const char* Dropout(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const double rate = args.attrs->Double("rate");
  if (rate <= 0) {
    const int64_t extent[] = {x.count}, stride[] = {1};
    return CopyRegion({x.dtype, extent, x.data, stride, args.out[0].data, stride});
  }
  const Draw draw = {
      RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key"))),
      static_cast<uint64_t>(args.step), DropThreshold(rate), KeptScale(rate)};
  int64_t logical_count = 1;
  for (int i = 0; i < x.rank; ++i) logical_count *= x.logical_dims[i];
  const int64_t shift = args.micro_batch * logical_count;
  const Runs runs(x);
  ParallelFor(x.count, Grain(16 * sizeof(float)),
              [&](int64_t begin, int64_t end) {  // arithmetic costs more than memory here
                while (begin < end) {
                  const int64_t run = begin / runs.length, offset = begin % runs.length;
                  const int64_t n = std::min(end - begin, runs.length - offset);
                  draw.Apply(x.as<const T>() + begin, args.out[0].as<T>() + begin, n,
                             static_cast<uint64_t>(shift + runs.Base(run) + offset));
                  begin += n;
                }
              });
  return nullptr;
}

}  // namespace

KernelList DropoutKernels() { return {OF_FLOAT_KERNELS("dropout", Dropout)}; }

}  // namespace oneflow::cpu
