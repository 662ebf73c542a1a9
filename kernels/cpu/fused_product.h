// Products by weights in panels, fused with the ops that follow.
#pragma once

#include "kernels/families.h"

namespace oneflow::cpu {

// Adds packed_matmul_bias, packed_matmul_bias_gelu, packed_matmul_gelu_bias_grad and sum_packed_matmul.
void AddFusedProducts(KernelList& kernels);

}  // namespace oneflow::cpu
