// The head of a model of many classes and its loss in one, of the family of products.
#pragma once

#include "kernels/cuda/kernels.h"

namespace oneflow::cuda {

void AddMatmulCrossEntropy(KernelList& kernels);

}  // namespace oneflow::cuda
