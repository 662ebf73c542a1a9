#include "actor/instruction/host_staging.h"

namespace oneflow {

absl::Status HostStaging::Make(TransferMemory& memory, std::span<const TensorArg> operands) {
  for (const TensorArg& x : operands) {
    OF_ASSIGN_OR_RETURN(transfers_.emplace_back(), memory.Make(NumBytes(x)));
  }
  return absl::OkStatus();
}

absl::Status HostStaging::TakeSlots() {
  slot_ = (slot_ + 1) % HostTransfer::kSlots;
  for (const auto& transfer : transfers_) OF_RETURN_IF_ERROR(Checked(transfer->WaitForSlot(slot_)));
  return absl::OkStatus();
}

absl::Status HostStaging::ToHost(int operand, const TensorArg& x) {
  int event = 0;
  OF_RETURN_IF_ERROR(Checked(transfers_[operand]->ToHost(slot_, x.data, NumBytes(x), &event)));
  return Checked(device_.WaitEvent(event));
}

absl::Status HostStaging::ToDevice(int operand, const TensorArg& x) {
  return Checked(transfers_[operand]->ToDevice(x.data, slot_, NumBytes(x)));
}

int64_t HostStaging::held_bytes() const {
  int64_t bytes = 0;
  for (const auto& transfer : transfers_) bytes += static_cast<int64_t>(transfer->device_bytes());
  return bytes;
}

}  // namespace oneflow
