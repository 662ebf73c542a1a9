// dropout: y = keep ? x / (1 - rate) : 0, where each LOGICAL element draws its own bits, so that the result is the same
// however the tensor is cut and the gradient is the same kernel on dy. A thread takes four neighbours, which mostly
// share one Philox block.

#include "kernels/cuda/copy.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/random.h"

namespace oneflow::cuda {
namespace {

// The logical index of a shard's elements, less that of the first, which `first` is, of `whole` elements; uncut
// dimensions are merged into the next outer one.
std::vector<LoopDim<1>> LogicalIndices(const TensorArg& x, uint64_t* first, uint64_t* whole) {
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

struct Draw {
  uint64_t key;
  uint64_t first, whole;  // of a micro-batch's elements
  uint32_t threshold;     // keep iff the upper 24 bits are at least this
  float scale;
};

template <typename T, typename Index>
__global__ void DropoutKernel(int64_t n, StridedLoop<Index, 1> logical, Draw draw, const ActNumbers* act, const T* x,
                              T* y) {
  const auto step = static_cast<uint64_t>(act->step);
  const uint64_t first = draw.first + static_cast<uint64_t>(act->micro_batch) * draw.whole;
#pragma unroll 1
  for (int64_t group = FirstIndex(); group * 4 < n; group += IndexStride()) {
    uint64_t drawn = ~uint64_t{0};  // the block that `random` holds
    Philox4 random;
    for (int i = 0; i < 4 && group * 4 + i < n; ++i) {
      const int64_t at = group * 4 + i;
      const uint64_t index = first + logical.At(static_cast<Index>(at)).of[0], block = index >> 2;
      if (block != drawn) {
        random = Philox(draw.key, static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                        static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32));
        drawn = block;
      }
      const uint32_t low = index & 1 ? random.x[1] : random.x[0], high = index & 1 ? random.x[3] : random.x[2];
      y[at] = Narrow<T>(((index & 2 ? high : low) >> 8) >= draw.threshold ? Widen(x[at]) * draw.scale : 0.0f);
    }
  }
}

template <typename T>
const char* Dropout(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const double rate = args.attrs->Double("rate");
  if (rate <= 0) return CopyRun(Stream(args), x.dtype, x.count, x.data, args.out[0].data);
  uint64_t first = 0, whole = 0;
  const std::vector<LoopDim<1>> logical = LogicalIndices(x, &first, &whole);
  if (logical.size() > kMaxRank) return "dropout in more than 8 merged dimensions";
  const Draw draw = {
      RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key"))), first,
      whole, DropThreshold(rate), KeptScale(rate)};
  return WithIndex(x.count, [&](auto index) {
    using Index = decltype(index);
    return Launch({Stream(args), Blocks(x.count, 4 * kThreads)}, DropoutKernel<T, Index>, x.count,
                  StridedLoop<Index, 1>(logical), draw, args.act, x.as<const T>(), args.out[0].as<T>());
  });
}

}  // namespace

KernelList DropoutKernels() { return {OF_FLOAT_KERNELS("dropout", Dropout)}; }

}  // namespace oneflow::cuda
