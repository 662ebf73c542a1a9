// Conversion between element types, for others too.
#pragma once

#include <cuda_runtime.h>

#include "kernels/kernel.h"

namespace oneflow::cuda {

// y[i] = x[i] for all elements of x, which is of a floating type; y is of any.
const char* LaunchCast(const TensorArg& x, const TensorArg& y, cudaStream_t stream);

}  // namespace oneflow::cuda
