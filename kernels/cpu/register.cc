// Every kernel that runs on cpu devices.
#include "kernels/cpu/kernels.h"

namespace oneflow {

KernelTable CpuKernels() {
  constexpr cpu::KernelList (*kFamilies[])() = {
      cpu::AttentionKernels, cpu::BiasKernels,         cpu::BinaryKernels,    cpu::CastKernels,
      cpu::Conv2dKernels,    cpu::CrossEntropyKernels, cpu::DropoutKernels,   cpu::EmbeddingKernels,
      cpu::GeluKernels,      cpu::GenerationKernels,   cpu::LayerNormKernels, cpu::LayoutKernels,
      cpu::MatmulKernels,    cpu::MaxPool2dKernels,    cpu::OptimizerKernels, cpu::ReduceKernels,
      cpu::SoftmaxKernels,   cpu::StateKernels,        cpu::UnaryKernels,
  };
  std::vector<Kernel> kernels;
  for (const auto& family : kFamilies) {
    const cpu::KernelList list = family();
    kernels.insert(kernels.end(), list.begin(), list.end());
  }
  return KernelTable(std::move(kernels));
}

}  // namespace oneflow
