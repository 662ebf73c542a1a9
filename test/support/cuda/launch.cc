// Launches of kernels.
#include <absl/debugging/symbolize.h>

#include <algorithm>

#include "test/support/cuda/block.h"
#include "test/support/cuda/software_device.h"
#include "test/support/cuda/system.h"
#include "test/support/cuda/watch.h"

namespace oneflow::software_cuda {
namespace {

constexpr unsigned kMaxThreadsPerBlock = 1024;

std::string NameOf(const void* kernel) {
  char name[512];
  return absl::Symbolize(kernel, name, sizeof name) ? name : "a kernel";
}

cudaError_t CheckLaunch(const cudaLaunchConfig_t& config, const void* kernel, int device) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > kMaxThreadsPerBlock || block.z > 64) {
    return cudaErrorInvalidConfiguration;
  }
  if (grid.x > INT32_MAX || grid.y > 65'535 || grid.z > 65'535) return cudaErrorInvalidConfiguration;
  if (config.numAttrs != 0) return cudaErrorNotSupported;
  return config.dynamicSmemBytes > System::Get().SharedBytes(device, kernel) ? cudaErrorInvalidValue : cudaSuccess;
}
}  // namespace

cudaError_t LaunchGrid(const cudaLaunchConfig_t& config, Launch launch) {
  CUstream_st* const on = Resolve(config.stream);
  if (on == nullptr) return Answer(cudaErrorInvalidResourceHandle);
  if (on->device != current_device) return Answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = CheckLaunch(config, launch.kernel, on->device); error != cudaSuccess)
    return Answer(error);
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  System::Get().CountLaunch({.threads = int64_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z});
  System::Get().CountKernel(launch.kernel);
  const uint64_t seed = System::Get().NextSeed();
  return Enqueue(config.stream, NameOf(launch.kernel), [=, launch = std::move(launch)] {
    BlockRunner::OfThread().Run(config, launch, seed ^ (running.replay * 0x9e3779b97f4a7c15));
  });
}
int64_t KernelLaunches(const std::string& part_of_name) {
  int64_t launches = 0;
  for (const auto& [kernel, times] : System::Get().KernelLaunches()) {
    if (NameOf(kernel).find(part_of_name) != std::string::npos) launches += times;
  }
  return launches;
}

int64_t LoadedKernels() { return static_cast<int64_t>(System::Get().KernelLaunches().size()); }

cudaError_t SetSharedMemory(const void* kernel, size_t bytes) {
  if (bytes > kMaxSharedBytes) return Answer(cudaErrorInvalidValue);
  System::Get().AllowSharedBytes(current_device, kernel, std::max(bytes, kSharedBytesUnasked));
  return Answer(cudaSuccess);
}

cudaError_t Attributes(cudaFuncAttributes* attributes, const void*) {
  if (System::Get().num_devices() == 0) return Answer(cudaErrorNoDevice);
  *attributes = {.maxThreadsPerBlock = kMaxThreadsPerBlock, .ptxVersion = 90, .binaryVersion = 90};
  return Answer(cudaSuccess);
}
}  // namespace oneflow::software_cuda
