// What the sources of cpu kernels share: the functions of all families.
#pragma once

#include "kernels/families.h"

namespace oneflow::cpu {

#define ONEFLOW_DECLARE_KERNELS(Family) KernelList Family##Kernels();
ONEFLOW_KERNEL_FAMILIES(ONEFLOW_DECLARE_KERNELS)
#undef ONEFLOW_DECLARE_KERNELS

}  // namespace oneflow::cpu
