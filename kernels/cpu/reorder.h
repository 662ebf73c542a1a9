// reorder: a tensor from one memory layout to another (oneflow_core/memory_layout.h).
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace oneflow::cpu {

// A KernelFn, for elements of 16 or 32 bits.
const char* Reorder(const KernelArgs& args);

}  // namespace oneflow::cpu
