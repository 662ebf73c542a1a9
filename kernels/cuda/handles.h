// The handles of cuBLASLt and cuDNN. They cost time and memory to make and may not be used by two threads at once, so
// every thread keeps one per device it has used, until it ends: the only state in kernels/cuda/ that no caller owns.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

namespace oneflow::cuda {

// Of the calling thread for its current device, made on first use. Null if the library refuses (as where there is no
// GPU).
cublasLtHandle_t ThreadBlasHandle();
cudnnHandle_t ThreadDnnHandle();

}  // namespace oneflow::cuda
