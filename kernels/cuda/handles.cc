#include "kernels/cuda/handles.h"

#include <cuda_runtime.h>

#include <map>

namespace oneflow::cuda {
namespace {

// Handles by device. A handle outlives everything that was launched with it: the libraries finish it before they let
// go.
template <typename Handle, auto kCreate, auto kDestroy>
class Handles {
 public:
  Handles() = default;
  Handles(const Handles&) = delete;
  ~Handles() {
    for (const auto& [device, handle] : by_device_) kDestroy(handle);
  }

  Handle Get() {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return nullptr;
    const auto found = by_device_.find(device);
    if (found != by_device_.end()) return found->second;
    Handle handle = nullptr;
    if (static_cast<int>(kCreate(&handle)) != 0) return nullptr;
    by_device_[device] = handle;
    return handle;
  }

 private:
  std::map<int, Handle> by_device_;
};

}  // namespace

cublasLtHandle_t ThreadBlasHandle() {
  thread_local Handles<cublasLtHandle_t, cublasLtCreate, cublasLtDestroy> handles;
  return handles.Get();
}

cudnnHandle_t ThreadDnnHandle() {
  thread_local Handles<cudnnHandle_t, cudnnCreate, cudnnDestroy> handles;
  return handles.Get();
}

}  // namespace oneflow::cuda
