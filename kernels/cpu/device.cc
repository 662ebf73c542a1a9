// The cpu as a device: anonymous memory in huge pages where the system gives them, calls that complete before they
// return, and a budget of cores for the actor thread.
#include "kernels/device.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "kernels/host_memory.h"

namespace oneflow {
namespace {

class CpuDevice final : public DeviceContext {
 public:
  explicit CpuDevice(int num_cores) : num_cores_(std::max(1, num_cores)), kernels_(CpuKernels()) {}
  ~CpuDevice() override {
    for (const Area& area : areas_) munmap(area.data, area.num_bytes);
  }

  const KernelTable& kernels() const override { return kernels_; }

  // Mapped memory is zero and page-aligned; a large area loses no time to small pages. All of it is taken at once.
  void* Allocate(size_t num_bytes) override {
    num_bytes = std::max<size_t>(num_bytes, 1);
    void* data = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    madvise(data, num_bytes, MADV_HUGEPAGE);  // a wish: without it everything works on small pages
    if (!TakePages(data, num_bytes)) {
      munmap(data, num_bytes);
      return nullptr;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    areas_.push_back({data, num_bytes});
    return data;
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
  struct Area {
    void* data;
    size_t num_bytes;
  };
  const int num_cores_;
  const KernelTable kernels_;
  std::mutex mutex_;
  std::vector<Area> areas_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<DeviceContext> MakeCpuDevice(int num_cores) { return std::make_unique<CpuDevice>(num_cores); }

}  // namespace oneflow
