// Conversion between element types, also for other kernels.
#pragma once

#include <cuda_runtime.h>

#include "kernels/kernel.h"

namespace oneflow::cuda {

// y[i] = x[i] for all elements. x is floating; y is of any type.
const char* LaunchCast(const TensorArg& x, const TensorArg& y, cudaStream_t stream);

}  // namespace oneflow::cuda
