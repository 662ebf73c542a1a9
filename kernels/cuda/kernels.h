// The families of CUDA kernels, one function per source file; register.cc lists them all. Twins of kernels/cpu/kernels.h: the same
// stem has the same ops with the same meaning, except for what kernels/cuda/README.md says about errors that a GPU cannot report.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace oneflow::cuda {

using KernelList = std::vector<Kernel>;

KernelList AttentionKernels();
KernelList BatchNormKernels();
KernelList BiasKernels();
KernelList BinaryKernels();
KernelList CastKernels();
KernelList Conv2dKernels();
KernelList CrossEntropyKernels();
KernelList CumsumKernels();
KernelList DropoutKernels();
KernelList EmbeddingKernels();
KernelList ExtremumKernels();
KernelList GeluKernels();
KernelList GenerationKernels();
KernelList IndexKernels();
KernelList LayerNormKernels();
KernelList LayoutKernels();
KernelList MatmulKernels();
KernelList MaxPool2dKernels();
KernelList OptimizerKernels();
KernelList PadKernels();
KernelList ReduceKernels();
KernelList ReplicaKernels();
KernelList RmsNormKernels();
KernelList SoftmaxKernels();
KernelList SoftmaxPartsKernels();
KernelList StateKernels();
KernelList UnaryKernels();

// Dimensions that a kernel's index arithmetic can hold after neighbours are merged: beyond what any model has.
inline constexpr int kMaxRank = 8;

// Product of dims[begin..end).
inline int64_t Product(const TensorArg& x, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= x.dims[i];
  return product;
}
// A tensor seen as rows of its last dimension.
inline int64_t Columns(const TensorArg& x) { return x.rank == 0 ? 1 : x.dims[x.rank - 1]; }
inline int64_t Rows(const TensorArg& x) { return Product(x, 0, x.rank - 1); }

}  // namespace oneflow::cuda
