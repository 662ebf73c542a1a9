// Stands in for kernels/cuda/ where the CUDA toolkit was not found.
#include "kernels/device.h"

namespace oneflow {

KernelTable CudaKernels() { return KernelTable({}); }

std::unique_ptr<DeviceContext> MakeCudaDevice(int, std::string* why, StreamPriority) {
  *why = "this build has no CUDA: the toolkit was not found when it was configured";
  return nullptr;
}

}  // namespace oneflow
