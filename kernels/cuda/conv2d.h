// conv2d with the algorithms that a file names, for who has another file than the process'.
#pragma once

#include <memory>

#include "kernels/cuda/product_algorithms.h"
#include "kernels/kernel.h"

namespace oneflow::cuda {

// What `prepare` of conv2d makes. Where `algorithms` measures, candidates run on memory of their own.
std::shared_ptr<void> PrepareConv2d(const KernelArgs& args, ProductAlgorithms& algorithms);
// cuDNN's number of the algorithm that it runs by. REQUIRES: the convolution has elements.
int Conv2dAlgorithm(const void* state);

}  // namespace oneflow::cuda
