// Kernels that only move elements (kernels/layout.h), by box copies on a stream.
#include "kernels/layout.h"

#include "kernels/cuda/copy.h"
#include "kernels/cuda/kernels.h"

namespace oneflow::cuda {
namespace {

struct OnStream {
  using Ints = std::vector<int64_t>;
  static const char* Copy(const KernelArgs& args, DType dtype, const Ints& extent, const void* source,
                          const Ints& source_stride, void* target, const Ints& target_stride) {
    return cuda::Copy(static_cast<cudaStream_t>(args.stream),
                      {dtype, extent, source, source_stride, target, target_stride});
  }
  static const char* Zero(const KernelArgs& args, const TensorArg& x) {
    if (x.count == 0) return nullptr;
    const cudaError_t error = cudaMemsetAsync(x.data, 0, static_cast<size_t>(x.count) * SizeOf(x.dtype),
                                              static_cast<cudaStream_t>(args.stream));
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  }
};

}  // namespace

KernelList LayoutKernels() { return BoxCopies<OnStream>::Kernels(); }

}  // namespace oneflow::cuda
