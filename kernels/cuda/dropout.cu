// dropout: y = keep ? x / (1 - rate) : 0, where each LOGICAL element draws its own bits, so that the result is the same
// however the tensor is cut and the gradient is the same kernel on dy. A thread takes four neighbours, which mostly
// share one Philox block.
#include <cmath>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/random.h"

namespace oneflow::cuda {
namespace {

// How a shard's elements lie in the logical tensor; innermost first, uncut dimensions merged into the next outer one.
struct Place {
  int rank = 0;
  int64_t extent[kMaxRank], stride[kMaxRank];
  uint64_t first = 0;  // the logical index of the shard's first element, and of the micro-batch

  __device__ uint64_t Logical(int64_t local) const {
    uint64_t index = first;
    for (int i = 0; i + 1 < rank; ++i) {
      index += local % extent[i] * stride[i];
      local /= extent[i];
    }
    return rank == 0 ? index : index + local * stride[rank - 1];
  }
};

// False if more than kMaxRank dimensions remain.
bool MakePlace(const TensorArg& x, int64_t micro_batch, Place* place) {
  int64_t stride = 1;
  bool whole = false;  // the dimensions so far are not cut: the next one continues their run
  for (int i = x.rank; i-- > 0;) {
    place->first += static_cast<uint64_t>(x.start[i] * stride);
    if (whole) {
      place->extent[place->rank - 1] *= x.dims[i];
    } else {
      if (place->rank == kMaxRank) return false;
      place->extent[place->rank] = x.dims[i];
      place->stride[place->rank++] = stride;
    }
    whole = x.dims[i] == x.logical_dims[i];
    stride *= x.logical_dims[i];
  }
  place->first += static_cast<uint64_t>(micro_batch * stride);
  return true;
}

struct Draw {
  uint64_t key, step;
  uint32_t threshold;  // keep iff the upper 24 bits are at least this
  float scale;
};

__global__ void DropoutKernel(int64_t n, Place place, Draw draw, const float* x, float* y) {
  for (int64_t group = FirstIndex(); group * 4 < n; group += IndexStride()) {
    uint64_t drawn = ~uint64_t{0};  // the block that `random` holds
    Philox4 random;
    for (int i = 0; i < 4 && group * 4 + i < n; ++i) {
      const int64_t at = group * 4 + i;
      const uint64_t index = place.Logical(at), block = index >> 2;
      if (block != drawn) {
        random = Philox(draw.key, static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                        static_cast<uint32_t>(draw.step), static_cast<uint32_t>(draw.step >> 32));
        drawn = block;
      }
      const uint32_t low = index & 1 ? random.x[1] : random.x[0], high = index & 1 ? random.x[3] : random.x[2];
      y[at] = ((index & 2 ? high : low) >> 8) >= draw.threshold ? x[at] * draw.scale : 0.0f;
    }
  }
}

const char* Dropout(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const double rate = args.attrs->Double("rate");
  if (rate <= 0) return CopyRun(Stream(args), x.dtype, x.count, x.data, args.out[0].data);
  const Draw draw = {
      RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key"))),
      static_cast<uint64_t>(args.step),
      // ToUniform(bits) >= rate, as integers.
      static_cast<uint32_t>(std::ceil(static_cast<double>(static_cast<float>(rate)) * 16777216.0)),
      rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0f};
  Place place;
  if (!MakePlace(x, args.micro_batch, &place)) return "dropout in more than 8 merged dimensions";
  return Launch({Stream(args), Blocks(x.count, 4 * kThreads)}, DropoutKernel, x.count, place, draw, x.as<const float>(),
                args.out[0].as<float>());
}

}  // namespace

KernelList DropoutKernels() { return {{"dropout", DType::kFloat32, Dropout}}; }

}  // namespace oneflow::cuda
