// What the sources of CUDA kernels share: the functions of all families. Twins of those of kernels/cpu: the same stem
// has the same ops with the same meaning, except for what kernels/cuda/README.md says about errors that a GPU cannot
// report.
#pragma once

#include "kernels/kernel_lists.h"

namespace oneflow::cuda {

#define ONEFLOW_DECLARE_KERNELS(Family) KernelList Family##Kernels();
ONEFLOW_KERNEL_FAMILIES(ONEFLOW_DECLARE_KERNELS)
#undef ONEFLOW_DECLARE_KERNELS

// Dimensions that a kernel's index arithmetic can hold after neighbours are merged: beyond what any model has.
inline constexpr int kMaxRank = 8;

}  // namespace oneflow::cuda
