// Transfers between host and device for the values that an instruction reads or fetches, over the plan's memory for
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "actor/instruction/kinds.h"
#include "kernels/host_transfer.h"

namespace oneflow {

// The plan's memory for the transfers of one instruction, which keep it from act to act.
class TransferMemory {
 public:
  explicit TransferMemory(const Unbound& unbound);

  // A transfer of `num_bytes` over the next part of it, or over memory of its own where the plan has less left.
  // ResourceExhausted if there is none.
  absl::StatusOr<std::unique_ptr<HostTransfer>> Make(int64_t num_bytes);

 private:
  DeviceContext& device_;
  char* next_ = nullptr;
  int64_t left_ = 0;
};

}  // namespace oneflow
