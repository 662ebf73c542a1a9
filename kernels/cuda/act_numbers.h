// The numbers of the act whose kernels a stream runs, in the device's memory.
#pragma once

#include <cuda_runtime.h>

#include "kernels/kernel.h"

namespace oneflow::cuda {

// Launches a kernel that writes them. Null, or what is wrong.
const char* WriteActNumbers(cudaStream_t stream, const ActNumbers& numbers, ActNumbers* target);

}  // namespace oneflow::cuda
