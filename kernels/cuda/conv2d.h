// conv2d with the algorithms of a given file instead of the process' file.
#pragma once

#include <memory>

#include "kernels/cuda/product_algorithms.h"
#include "kernels/kernel.h"

namespace oneflow::cuda {

// The state that `prepare` of conv2d makes. If `algorithms` measures, candidates run on memory of their own.
std::shared_ptr<void> PrepareConv2d(const KernelArgs& args, ProductAlgorithms& algorithms);
// cuDNN's number of the chosen algorithm. REQUIRES: the convolution has elements.
int Conv2dAlgorithm(const void* state);

}  // namespace oneflow::cuda
