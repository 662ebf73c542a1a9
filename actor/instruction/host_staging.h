// Where the host does an instruction's work and cannot address the device's memory: slots of host memory in place of
// the operands.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actor/instruction/kinds.h"
#include "actor/instruction/transfer_memory.h"
#include "kernels/host_transfer.h"

namespace oneflow {

// Operands are told by their places in what Make() was given. All functions on the thread that launches.
class HostStaging {
 public:
  // `device` outlives it.
  explicit HostStaging(DeviceContext& device) : device_(device) {}

  // A transfer for each of `operands`, over the plan's memory. ResourceExhausted if there is none.
  absl::Status Make(TransferMemory& memory, std::span<const TensorArg> operands);

  // Takes the next slot of each transfer and sleeps until the device has read what lies there. An error of a transfer
  // before.
  absl::Status TakeSlots();
  // Where the operand lies on the host, until the next TakeSlots().
  char* slot(int operand) { return transfers_[operand]->slot(slot_); }
  // Copies `x`, which is on the device, to its slot, and waits for it.
  absl::Status ToHost(int operand, const TensorArg& x);
  // Copies the slot to `x`, which is on the device; kernels that are launched from now on see it.
  absl::Status ToDevice(int operand, const TensorArg& x);

  // Device memory that the transfers allocated themselves.
  int64_t held_bytes() const;

 private:
  DeviceContext& device_;
  std::vector<std::unique_ptr<HostTransfer>> transfers_;
  int slot_ = 0;
};

}  // namespace oneflow
