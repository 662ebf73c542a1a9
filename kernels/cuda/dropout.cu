// dropout: y = keep ? x / (1 - rate) : 0, where each LOGICAL element draws its own bits, so that the result is the same
// however the tensor is cut and the gradient is the same kernel on dy. A thread takes four neighbours, which mostly
// share one Philox block. uniform_like and normal_like draw alike.

#include "kernels/cuda/copy.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/random_draw.cuh"

namespace oneflow::cuda {
namespace {

struct Kept {
  uint32_t threshold;  // keep iff the upper 24 bits are at least this
  float scale;
};

template <typename T, typename Index>
__global__ void DropoutKernel(int64_t n, StridedLoop<Index, 1> logical, Draw draw, Kept kept, const ActNumbers* act,
                              const T* x, T* y) {
  const auto step = static_cast<uint64_t>(act->step);
  const uint64_t first = draw.First(*act);
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
      y[at] = Narrow<T>(((index & 2 ? high : low) >> 8) >= kept.threshold ? Widen(x[at]) * kept.scale : 0.0f);
    }
  }
}

// One element a thread.
template <bool kNormal, typename Index>
__global__ void LikeKernel(int64_t n, StridedLoop<Index, 1> logical, Draw draw, const ActNumbers* act, float* y) {
  const auto step = static_cast<uint64_t>(act->step);
  const uint64_t first = draw.First(*act);
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) {
    const uint64_t index = first + logical.At(static_cast<Index>(i)).of[0];
    if constexpr (kNormal) {
      const float u = ToUniform(RandomBits(draw.key, step, 2 * index));
      const float v = ToUniform(RandomBits(draw.key, step, 2 * index + 1));
      y[i] = sqrtf(-2.0f * logf(1.0f - u)) * cospif(2.0f * v);
    } else {
      y[i] = ToUniform(RandomBits(draw.key, step, index));
    }
  }
}

template <bool kNormal>
const char* Like(const KernelArgs& args) {
  const TensorArg& y = args.out[0];
  if (y.count == 0) return nullptr;
  std::vector<LoopDim<1>> logical;
  const Draw draw = DrawOf(args, y, &logical);
  if (logical.size() > kMaxRank) return "random numbers in more than 8 merged dimensions";
  return WithIndex(y.count, [&](auto index) {
    using Index = decltype(index);
    return Launch({Stream(args), Blocks(y.count)}, LikeKernel<kNormal, Index>, y.count, StridedLoop<Index, 1>(logical),
                  draw, args.act, y.as<float>());
  });
}

template <typename T>
const char* Dropout(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const double rate = args.attrs->Double("rate");
  if (rate <= 0) return CopyRun(Stream(args), x.dtype, x.count, x.data, args.out[0].data);
  std::vector<LoopDim<1>> logical;
  const Draw draw = DrawOf(args, x, &logical);
  if (logical.size() > kMaxRank) return "dropout in more than 8 merged dimensions";
  return WithIndex(x.count, [&](auto index) {
    using Index = decltype(index);
    return Launch({Stream(args), Blocks(x.count, 4 * kThreads)}, DropoutKernel<T, Index>, x.count,
                  StridedLoop<Index, 1>(logical), draw, Kept{DropThreshold(rate), KeptScale(rate)}, args.act,
                  x.as<const T>(), args.out[0].as<T>());
  });
}

}  // namespace

KernelList DropoutKernels() {
  return {OF_FLOAT_KERNELS("dropout", Dropout),
          {"uniform_like", DType::kFloat32, Like<false>},
          {"normal_like", DType::kFloat32, Like<true>}};
}

}  // namespace oneflow::cuda
