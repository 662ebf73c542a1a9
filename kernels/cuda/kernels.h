// The functions of all families, for the sources of CUDA kernels. They are twins of kernels/cpu: a file of the same
// stem has the same ops with the same meaning, except for errors that a GPU cannot report (kernels/cuda/README.md).
#pragma once

#include "kernels/kernel_lists.h"

namespace oneflow::cuda {

#define ONEFLOW_DECLARE_KERNELS(Family) KernelList Family##Kernels();
ONEFLOW_KERNEL_FAMILIES(ONEFLOW_DECLARE_KERNELS)
#undef ONEFLOW_DECLARE_KERNELS

// The most dimensions of a kernel's loop after neighbours are merged: more than any model has.
inline constexpr int kMaxRank = 8;

}  // namespace oneflow::cuda
