// Kernels that only move elements (kernels/layout.h), by box copies in host memory.
#include "kernels/layout.h"

#include "kernels/copy.h"
#include "kernels/cpu/kernels.h"

namespace oneflow::cpu {
namespace {

struct Host {
  using Ints = std::vector<int64_t>;
  static const char* Copy(const KernelArgs&, DType dtype, const Ints& extent, const void* source,
                          const Ints& source_stride, void* target, const Ints& target_stride) {
    return CopyRegion({dtype, extent, source, source_stride, target, target_stride});
  }
  static const char* Zero(const KernelArgs&, const TensorArg& x) {
    FillZero(x.data, static_cast<size_t>(x.count) * SizeOf(x.dtype));
    return nullptr;
  }
};

}  // namespace

KernelList LayoutKernels() { return BoxCopies<Host>::Kernels(); }

}  // namespace oneflow::cpu
