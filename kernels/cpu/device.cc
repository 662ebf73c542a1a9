// The cpu as a device: anonymous memory in huge pages where the system gives them, calls that complete before they
// return, and a budget of cores for the actor thread.
#include "kernels/device.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cpu/variant.h"
#include "kernels/host_memory.h"
#include "kernels/kernel.h"

namespace oneflow {
namespace {

class CpuDevice final : public DeviceContext {
 public:
  CpuDevice(int num_cores, KernelTable kernels) : num_cores_(std::max(1, num_cores)), kernels_(std::move(kernels)) {}

  const KernelTable& kernels() const override { return kernels_; }

  void* Allocate(size_t num_bytes) override {
    HostPages pages(num_bytes);
    if (pages.data() == nullptr) return nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    return areas_.emplace_back(std::move(pages)).data();
  }
  const char* CopyToHost(void* host, const void* device, size_t num_bytes) override {
    if (num_bytes > 0) std::memcpy(host, device, num_bytes);
    return nullptr;
  }
  const char* CopyFromHost(void* device, const void* host, size_t num_bytes) override {
    if (num_bytes > 0) std::memcpy(device, host, num_bytes);
    return nullptr;
  }
  bool host_accessible() const override { return true; }

  void* stream() override { return nullptr; }
  const char* BindThread() override {
    omp_set_num_threads(num_cores_);
    return nullptr;
  }
  int threads() const override { return num_cores_; }

 private:
  const int num_cores_;
  const KernelTable kernels_;
  std::mutex mutex_;
  std::vector<HostPages> areas_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<DeviceContext> MakeCpuDevice(int num_cores) { return MakeCpuDevice(num_cores, TheCpuVariant()); }
std::unique_ptr<DeviceContext> MakeCpuDevice(int num_cores, const CpuVariant& variant) {
  return std::make_unique<CpuDevice>(num_cores, CpuKernels(variant));
}

}  // namespace oneflow
