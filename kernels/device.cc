// What devices have in common where they know nothing better: the host does copies of memory that it can address, and
// nothing is ever on its way.
#include "kernels/device.h"

#include <cstring>
#include <new>

#include "kernels/copy.h"
#include "kernels/host_transfer.h"
#include "kernels/kernel.h"

namespace oneflow {
namespace {

class SynchronousTransfer final : public HostTransfer {
 public:
  explicit SynchronousTransfer(DeviceContext& device) : device_(device) {}

  bool Allocate(size_t num_bytes) {
    for (auto& slot : slots_) slot.reset(new (std::nothrow) char[num_bytes]);
    return slots_[0] != nullptr && slots_[1] != nullptr;
  }

  const char* WaitForSlot(int) override { return nullptr; }
  char* slot(int slot) override { return slots_[slot].get(); }
  const char* ToDevice(void* device, int slot, size_t num_bytes) override {
    return device_.CopyFromHost(device, slots_[slot].get(), num_bytes);
  }
  const char* ToHost(int slot, const void* device, size_t num_bytes, int* event) override {
    if (const char* error = device_.CopyToHost(slots_[slot].get(), device, num_bytes)) return error;
    return device_.RecordEvent(event);
  }
  size_t device_bytes() const override { return 0; }

 private:
  DeviceContext& device_;
  std::unique_ptr<char[]> slots_[kSlots];
};

}  // namespace

std::unique_ptr<HostTransfer> DeviceContext::MakeTransfer(size_t num_bytes, void*) {
  auto transfer = std::make_unique<SynchronousTransfer>(*this);
  if (!transfer->Allocate(num_bytes)) return nullptr;
  return transfer;
}

const char* DeviceContext::RecordEvent(int* event) {
  *event = 0;
  return nullptr;
}
const char* DeviceContext::WaitEvent(int) { return nullptr; }
const char* DeviceContext::WaitBehind(DeviceContext&, int) { return nullptr; }
void DeviceContext::GiveBackEvent(int) {}
const char* DeviceContext::BeginTiming() {
  timing_began_ = std::chrono::steady_clock::now();
  return nullptr;
}
const char* DeviceContext::EndTiming(double* seconds) {
  *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - timing_began_).count();
  return nullptr;
}
const char* DeviceContext::BeginCapture() { return "this device captures nothing"; }
const char* DeviceContext::EndCapture(std::unique_ptr<CapturedWork>*) { return "this device captures nothing"; }
const char* DeviceContext::SetActNumbers(const ActNumbers&) { return nullptr; }

const char* DeviceContext::CopyRegion(const CopyRegionArgs& args) { return oneflow::CopyRegion(args); }

const char* DeviceContext::CopyRows(const CopyRowsArgs& args) { return oneflow::CopyRows(args); }

const char* DeviceContext::Move(void* to, const void* from, size_t num_bytes) {
  std::memcpy(to, from, num_bytes);
  return nullptr;
}

const char* DeviceContext::FillZero(void* target, size_t num_bytes) {
  oneflow::FillZero(target, num_bytes);
  return nullptr;
}

}  // namespace oneflow
