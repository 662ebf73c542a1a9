// Every kernel that runs on CUDA devices.
#include "kernels/cuda/kernels.h"

namespace oneflow {

KernelTable CudaKernels() {
  std::vector<Kernel> kernels;
  const auto add = [&](const auto& family) { kernels.insert(kernels.end(), family.begin(), family.end()); };
#define ONEFLOW_ADD_KERNELS(Family) add(cuda::Family##Kernels());
  ONEFLOW_KERNEL_FAMILIES(ONEFLOW_ADD_KERNELS)
#undef ONEFLOW_ADD_KERNELS
  add(AddedCudaKernels());
  return KernelTable(std::move(kernels));
}

}  // namespace oneflow
