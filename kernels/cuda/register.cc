// Every kernel that runs on CUDA devices.
#include "kernels/cuda/kernels.h"

namespace oneflow {

KernelTable CudaKernels() {
  constexpr cuda::KernelList (*kFamilies[])() = {
      cuda::AttentionKernels, cuda::BiasKernels,         cuda::BinaryKernels,    cuda::CastKernels,
      cuda::Conv2dKernels,    cuda::CrossEntropyKernels, cuda::DropoutKernels,   cuda::EmbeddingKernels,
      cuda::GeluKernels,      cuda::GenerationKernels,   cuda::LayerNormKernels, cuda::LayoutKernels,
      cuda::MatmulKernels,    cuda::MaxPool2dKernels,    cuda::OptimizerKernels, cuda::ReduceKernels,
      cuda::SoftmaxKernels,   cuda::StateKernels,        cuda::UnaryKernels,
  };
  std::vector<Kernel> kernels;
  for (const auto& family : kFamilies) {
    const cuda::KernelList list = family();
    kernels.insert(kernels.end(), list.begin(), list.end());
  }
  return KernelTable(std::move(kernels));
}

}  // namespace oneflow
