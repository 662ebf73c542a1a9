// pad: a constant everywhere, then x in its place by a box copy.
#include <vector>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/launch.cuh"

namespace oneflow::cuda {
namespace {

// A split dimension is not padded, so its margin is 0 in every shard too.
template <typename T>
const char* Pad(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  const T value = Narrow<T>(args.attrs->Double("value"));
  T* const to = y.as<T>();
  if (const char* error = ForEach(Stream(args), y.count, [to, value] __device__(int64_t i) { to[i] = value; })) {
    return error;
  }
  const std::vector<int64_t> before = args.attrs->Ints("before"), strides = Strides(y);
  int64_t offset = 0;
  for (int i = 0; i < y.rank; ++i) offset += before[i] * strides[i];
  const std::vector<int64_t> extent(x.dims, x.dims + x.rank), from = Strides(x);
  return Copy(Stream(args), {x.dtype, extent, x.data, from, to + offset, strides});
}

}  // namespace

KernelList PadKernels() { return {OF_PAD_KERNELS}; }

}  // namespace oneflow::cuda
