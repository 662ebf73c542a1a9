// The product of a model's head fused with its loss, part of the family of products.
#pragma once

#include "kernels/cuda/kernels.h"

namespace oneflow::cuda {

void AddMatmulCrossEntropy(KernelList& kernels);

}  // namespace oneflow::cuda
