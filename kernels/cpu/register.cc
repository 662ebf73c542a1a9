// Every kernel that runs on cpu devices.
#include "kernels/cpu/kernels.h"

namespace oneflow {

KernelTable CpuKernels() {
  constexpr cpu::KernelList (*kFamilies[])() = {
      cpu::AttentionKernels,    cpu::BatchNormKernels, cpu::BiasKernels,         cpu::BinaryKernels,
      cpu::CastKernels,         cpu::Conv2dKernels,    cpu::CrossEntropyKernels, cpu::CumsumKernels,
      cpu::DropoutKernels,      cpu::EmbeddingKernels, cpu::ExtremumKernels,     cpu::GeluKernels,
      cpu::GenerationKernels,   cpu::IndexKernels,     cpu::LayerNormKernels,    cpu::LayoutKernels,
      cpu::MatmulKernels,       cpu::MaxPool2dKernels, cpu::OptimizerKernels,    cpu::PadKernels,
      cpu::ReduceKernels,       cpu::ReplicaKernels,   cpu::RmsNormKernels,      cpu::SoftmaxKernels,
      cpu::SoftmaxPartsKernels, cpu::StateKernels,     cpu::UnaryKernels,
  };
  std::vector<Kernel> kernels;
  for (const auto& family : kFamilies) {
    const cpu::KernelList list = family();
    kernels.insert(kernels.end(), list.begin(), list.end());
  }
  return KernelTable(std::move(kernels));
}

}  // namespace oneflow
