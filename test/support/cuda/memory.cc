#include "test/support/cuda/memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "test/support/cuda/system.h"

namespace oneflow::software_cuda {
namespace {

constexpr size_t kAddresses = size_t{1} << 40;  // of a device
constexpr size_t kPage = 4096;
constexpr size_t kGap = 64 * kPage;  // behind each allocation

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// The addresses of all devices, reserved once; pages of an allocation become real when it is made.
class DeviceMemory {
 public:
  DeviceMemory() {
    void* const begin =
        mmap(nullptr, kMaxDevices * kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) {
      std::perror("addresses of software CUDA devices");
      std::abort();
    }
    begin_ = static_cast<char*>(begin);
    key_ = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (const char* const megabytes = std::getenv("SOFTWARE_CUDA_MEGABYTES"))
      bytes_ = std::strtoull(megabytes, nullptr, 10) << 20;
  }

  void Admit(bool may) {
    if (key_ >= 0) pkey_set(key_, may ? 0 : PKEY_DISABLE_ACCESS);
  }

  char* Allocate(int device, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Device& on = devices_[device];
    const size_t pages = RoundUp(bytes, kPage);
    if (on.in_use + pages > bytes_ || on.next + pages + kGap > kAddresses) return nullptr;
    char* const first = begin_ + device * kAddresses + on.next;
    if (!Protect(first, pages)) return nullptr;
    on.next += pages + kGap;
    on.in_use += pages;
    // Ends where its last page ends, but for alignment: what lies behind it is nobody's.
    char* const data = first + (pages - RoundUp(bytes, 256));
    allocations_[data] = bytes;
    return data;
  }

  bool Hold(int device, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (devices_[device].in_use + bytes > bytes_) return false;
    devices_[device].in_use += bytes;
    return true;
  }
  void LetGo(int device, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    devices_[device].in_use -= bytes;
  }

  bool Free(int device, char* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = allocations_.find(data);
    if (it == allocations_.end()) return false;
    const size_t pages = RoundUp(it->second, kPage);
    char* const first = data - (pages - RoundUp(it->second, 256));
    // Reserved anew, it becomes one with what is reserved beside it: a process has only so many mappings.
    mmap(first, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    devices_[device].in_use -= pages;
    allocations_.erase(it);
    generation_.fetch_add(1);
    return true;
  }

  std::optional<Allocation> Find(const char* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto it = allocations_.upper_bound(const_cast<char*>(data));
    if (it == allocations_.begin()) return std::nullopt;
    --it;
    const Region bytes = {it->first, it->first + it->second};
    if (!bytes.Has(data)) return std::nullopt;
    return Allocation{bytes, static_cast<int>((it->first - begin_) / static_cast<ptrdiff_t>(kAddresses))};
  }

  bool Has(const char* data) const { return data >= begin_ && data < begin_ + kMaxDevices * kAddresses; }
  size_t in_use(int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return devices_[device].in_use;
  }
  size_t bytes() const { return bytes_; }
  bool has_key() const { return key_ >= 0; }
  uint64_t generation() const { return generation_.load(); }

 private:
  struct Device {
    size_t next = 0, in_use = 0;
  };

  bool Protect(char* first, size_t bytes) {
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    return (key_ >= 0 ? pkey_mprotect(first, bytes, kAccess, key_) : mprotect(first, bytes, kAccess)) == 0;
  }

  char* begin_ = nullptr;
  int key_ = -1;                    // threads have the right to it or not; -1: this machine has no such keys
  size_t bytes_ = size_t{8} << 30;  // of a device
  std::mutex mutex_;
  Device devices_[kMaxDevices];
  std::map<char*, size_t> allocations_;
  std::atomic<uint64_t> generation_{1};
};

DeviceMemory& Memory() {
  static DeviceMemory* const memory = new DeviceMemory;  // streams may outlive statics
  return *memory;
}

}  // namespace

void AdmitThread(bool may) { Memory().Admit(may); }
bool HasProtectionKeys() { return Memory().has_key(); }
char* AllocateOn(int device, size_t bytes) { return Memory().Allocate(device, bytes); }
bool FreeOn(int device, void* data) { return Memory().Free(device, static_cast<char*>(data)); }
bool HoldOn(int device, size_t bytes) { return Memory().Hold(device, bytes); }
void LetGoOn(int device, size_t bytes) { Memory().LetGo(device, bytes); }
size_t BytesInUse(int device) { return Memory().in_use(device); }
size_t BytesOf(int) { return Memory().bytes(); }
std::optional<Allocation> FindAllocation(const void* data) { return Memory().Find(static_cast<const char*>(data)); }
bool IsDeviceAddress(const void* data) { return Memory().Has(static_cast<const char*>(data)); }
uint64_t AllocationGeneration() { return Memory().generation(); }

}  // namespace oneflow::software_cuda
