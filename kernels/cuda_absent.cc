// Stands in for kernels/cuda/ where the CUDA toolkit was not found.
#include "kernels/device.h"
#include "kernels/kernel.h"

namespace oneflow {

KernelTable CudaKernels() { return KernelTable({AddedCudaKernels().begin(), AddedCudaKernels().end()}); }

namespace {
constexpr const char* kWhy = "this build has no CUDA: the toolkit was not found when it was configured";
}  // namespace

std::optional<DeviceMemory> CudaMemory(int, std::string* why) {
  *why = kWhy;
  return std::nullopt;
}

std::unique_ptr<DeviceContext> MakeCudaDevice(int, std::string* why, StreamPriority) {
  *why = kWhy;
  return nullptr;
}

}  // namespace oneflow
