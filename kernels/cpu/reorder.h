// reorder: a tensor from one memory layout to another (oneflow_core/memory_layout.h); and matrices, turned around.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace oneflow::cpu {

// Of elements of 16 or 32 bits. As KernelFn.
const char* Reorder(const KernelArgs& args);

// Both sides of what TransposeMatrix takes are multiples of this.
inline constexpr int64_t kTransposedUnit = 16;
// to[columns,rows], dense, = from[rows,columns]^T, whose rows begin `row` elements apart.
void TransposeMatrix(const float* from, int64_t row, int64_t rows, int64_t columns, float* to);

}  // namespace oneflow::cpu
