// Transfers between host and device memory that overlap with computation, for values that a job reads or fetches.
//
//   ToDevice   host slot ──own stream──► device memory between ──► operand, in the order of what is launched
//   ToHost     operand ──► device memory between, in that order ──own stream──► host slot
//
// Later launches may overwrite the operand at once: only the copy on the device is in their order.
#pragma once

#include <cstddef>

namespace oneflow {

class HostTransfer {
 public:
  // Slots of host memory: one is in transfer while the next is filled.
  static constexpr int kSlots = 2;

  virtual ~HostTransfer() = default;

  // Sleeps until the slot's last ToDevice() has read it, so that it may be written. Null, or the error of that
  // transfer.
  virtual const char* WaitForSlot(int slot) = 0;
  virtual char* slot(int slot) = 0;

  // On the thread that launches; `num_bytes` at most what the transfer was made for. Null, or which call failed.
  virtual const char* ToDevice(void* device, int slot, size_t num_bytes) = 0;
  // The bytes are in the slot when `*event` has come (DeviceContext::WaitEvent).
  virtual const char* ToHost(int slot, const void* device, size_t num_bytes, int* event) = 0;

  // Device memory that it allocated itself.
  virtual size_t device_bytes() const = 0;
};

}  // namespace oneflow
