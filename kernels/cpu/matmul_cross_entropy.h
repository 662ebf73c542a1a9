// The product of a model's head fused with its loss, in blocks of rows.
#pragma once

#include "kernels/families.h"

namespace oneflow::cpu {

// Adds matmul_cross_entropy, its gradient, and both on weights in panels.
void AddMatmulCrossEntropy(KernelList& kernels);

}  // namespace oneflow::cpu
