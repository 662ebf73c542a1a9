// The numbers of the current act in device memory.
#pragma once

#include <cuda_runtime.h>

#include "kernels/kernel.h"

namespace oneflow::cuda {

// Launches a kernel that writes the numbers. Null, or what is wrong.
const char* WriteActNumbers(cudaStream_t stream, const ActNumbers& numbers, ActNumbers* target);

}  // namespace oneflow::cuda
