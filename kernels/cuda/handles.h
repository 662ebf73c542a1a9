// The handles of cuBLASLt and cuDNN. They are expensive to make, and two threads may not use one at once. So every
// thread keeps one for each device that it has used, until the thread ends. No caller owns them; kernels/cuda/ has no
// other such state.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

namespace oneflow::cuda {

// The calling thread's handle for its current device, made on first use. Null if the library refuses, for example
// without a GPU.
cublasLtHandle_t ThreadBlasHandle();
cudnnHandle_t ThreadDnnHandle();

}  // namespace oneflow::cuda
