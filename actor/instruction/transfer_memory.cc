#include "actor/instruction/transfer_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

constexpr int64_t kAlignment = 64;  // of what the compiler lays out

}  // namespace

TransferMemory::TransferMemory(const Unbound& unbound)
    : device_(unbound.context.device), left_(unbound.instruction.scratch_bytes()) {
  if (left_ == 0) return;
  next_ = unbound.context.memory.Base(unbound.context.rank, kWorkZone) + unbound.instruction.scratch_offset();
}

absl::StatusOr<std::unique_ptr<HostTransfer>> TransferMemory::Make(int64_t num_bytes) {
  const int64_t aligned = (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* between = nullptr;
  if (aligned <= left_) {
    left_ -= aligned;
    between = std::exchange(next_, next_ + aligned);
  }
  std::unique_ptr<HostTransfer> transfer = device_.MakeTransfer(num_bytes, between);
  if (transfer != nullptr) return transfer;
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for a transfer of ", num_bytes, " bytes between host and device"));
}

}  // namespace oneflow
