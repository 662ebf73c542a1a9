// Every kernel that runs on CUDA devices.
#include "kernels/cuda/kernels.h"

namespace oneflow {

KernelTable CudaKernels() {
  constexpr cuda::KernelList (*kFamilies[])() = {
      cuda::AttentionKernels,    cuda::BatchNormKernels, cuda::BiasKernels,         cuda::BinaryKernels,
      cuda::CastKernels,         cuda::Conv2dKernels,    cuda::CrossEntropyKernels, cuda::CumsumKernels,
      cuda::DropoutKernels,      cuda::EmbeddingKernels, cuda::ExtremumKernels,     cuda::GeluKernels,
      cuda::GenerationKernels,   cuda::IndexKernels,     cuda::LayerNormKernels,    cuda::LayoutKernels,
      cuda::MatmulKernels,       cuda::MaxPool2dKernels, cuda::OptimizerKernels,    cuda::PadKernels,
      cuda::ReduceKernels,       cuda::ReplicaKernels,   cuda::RmsNormKernels,      cuda::SoftmaxKernels,
      cuda::SoftmaxPartsKernels, cuda::StateKernels,     cuda::UnaryKernels,
  };
  std::vector<Kernel> kernels;
  for (const auto& family : kFamilies) {
    const cuda::KernelList list = family();
    kernels.insert(kernels.end(), list.begin(), list.end());
  }
  return KernelTable(std::move(kernels));
}

}  // namespace oneflow
