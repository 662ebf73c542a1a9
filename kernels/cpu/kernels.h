// The functions of all families, for the sources of CPU kernels.
#pragma once

#include "kernels/kernel_lists.h"

namespace oneflow::cpu {

#define ONEFLOW_DECLARE_KERNELS(Family) KernelList Family##Kernels();
ONEFLOW_KERNEL_FAMILIES(ONEFLOW_DECLARE_KERNELS)
#undef ONEFLOW_DECLARE_KERNELS

}  // namespace oneflow::cpu
