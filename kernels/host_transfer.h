// A way between host and device memory for values that are read or fetched while the device computes.
//
//   ToDevice   host slot ──own stream──► device memory between ──► operand, in the order of what is launched
//   ToHost     operand ──► device memory between, in that order ──own stream──► host slot
//
// What is launched later may overwrite the operand at once, and nobody waits for the bus.
#pragma once

#include <cstddef>

namespace oneflow {

class HostTransfer {
 public:
  // Host memory for so many transfers: one may be on its way while the next is made ready.
  static constexpr int kSlots = 2;

  virtual ~HostTransfer() = default;

  // Sleeps until the slot's last ToDevice has read it; then it may be written. Null, or the error that it met.
  virtual const char* WaitForSlot(int slot) = 0;
  virtual char* slot(int slot) = 0;

  // On the thread that launches; `num_bytes` at most what the transfer was made for. Null, or which call failed.
  virtual const char* ToDevice(void* device, int slot, size_t num_bytes) = 0;
  // The bytes are in the slot when `*event` has come (DeviceContext::WaitEvent).
  virtual const char* ToHost(int slot, const void* device, size_t num_bytes, int* event) = 0;

  // Memory of the device that it took beside what it was given.
  virtual size_t device_bytes() const = 0;
};

}  // namespace oneflow
