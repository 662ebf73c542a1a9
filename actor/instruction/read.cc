// READ: a data source fills the outputs. Where the host cannot address the device's memory, it fills a slot of a host
// transfer per output, while earlier launches still run. An attribute may set the least time.
#include <chrono>
#include <thread>
#include <vector>

#include "actor/check/bounds.h"
#include "actor/instruction/attributes.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/operand_check.h"
#include "actor/instruction/transfer_memory.h"

namespace oneflow {
namespace {

// Null if there is none.
const std::atomic<int64_t>* ShiftOf(const Unbound& unbound) {
  if (unbound.context.row_shifts == nullptr) return nullptr;
  const auto shift = unbound.context.row_shifts->find(unbound.plan.name());
  return shift == unbound.context.row_shifts->end() ? nullptr : &shift->second;
}

class Read final : public BoundInstruction {
 public:
  Read(Unbound unbound, std::shared_ptr<Source> source, double least_ms)
      : BoundInstruction(std::move(unbound.operands)),
        device_(unbound.context.device),
        micro_batches_(unbound.plan.micro_batches()),
        row_shift_(ShiftOf(unbound)),
        least_(static_cast<int64_t>(least_ms * 1e6)),
        source_(std::move(source)) {}

  absl::Status MakeTransfers(TransferMemory memory) {
    if (device_.host_accessible()) return absl::OkStatus();
    for (const TensorArg& output : operands_.outputs()) {
      OF_ASSIGN_OR_RETURN(transfers_.emplace_back(), memory.Make(NumBytes(output)));
    }
    return absl::OkStatus();
  }

  absl::Status Run(const CurrentAct& act) override {
    if (device_.host_accessible()) return ReadInto(act, operands_.outputs());
    const int slot = slot_;
    slot_ = (slot_ + 1) % HostTransfer::kSlots;
    std::vector<TensorArg> staged(operands_.outputs().begin(), operands_.outputs().end());
    for (size_t i = 0; i < staged.size(); ++i) {
      OF_RETURN_IF_ERROR(Checked(transfers_[i]->WaitForSlot(slot)));
      staged[i].data = transfers_[i]->slot(slot);
    }
    OF_RETURN_IF_ERROR(ReadInto(act, staged));
    for (size_t i = 0; i < staged.size(); ++i) {
      const TensorArg& output = operands_.outputs()[i];
      OF_RETURN_IF_ERROR(Checked(transfers_[i]->ToDevice(output.data, slot, NumBytes(output))));
    }
    return absl::OkStatus();
  }

  int64_t held_bytes() const override {
    int64_t bytes = 0;
    for (const auto& transfer : transfers_) bytes += static_cast<int64_t>(transfer->device_bytes());
    return bytes;
  }

 private:
  absl::Status ReadInto(const CurrentAct& act, absl::Span<const TensorArg> outputs) {
    const auto begin = std::chrono::steady_clock::now();
    OF_RETURN_IF_ERROR(source_->Read(act.step, act.micro_batch, micro_batches_, outputs,
                                     row_shift_ == nullptr ? 0 : row_shift_->load(std::memory_order_relaxed)));
    if (least_.count() > 0) std::this_thread::sleep_until(begin + least_);
    return absl::OkStatus();
  }

  DeviceContext& device_;
  const int64_t micro_batches_;
  const std::atomic<int64_t>* const row_shift_;  // null: none
  const std::chrono::nanoseconds least_;
  const std::shared_ptr<Source> source_;
  std::vector<std::unique_ptr<HostTransfer>> transfers_;  // one per output, or none
  int slot_ = 0;                                          // of the next run
};

}  // namespace

absl::Status CheckRead(const Unchecked& unchecked) {
  return unchecked.instruction.outputs().empty() ? Malformed("it has no outputs") : absl::OkStatus();
}

BoundOrError BindRead(Unbound unbound) {
  const AttrMap attrs = ToAttrMap(unbound.instruction.attributes());
  OF_ASSIGN_OR_RETURN(const OpDef* const read_data, unbound.context.ops.Get("read_data"));
  OF_RETURN_IF_ERROR(CheckOperands(*read_data, attrs, unbound.plan, unbound.actor, unbound.instruction));
  OF_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, unbound.context.sources.Open(attrs));
  const double least_ms = attrs.Double("least_ms");
  if (!(least_ms >= 0 && least_ms <= 1e4))
    return absl::InvalidArgumentError(absl::StrCat("least_ms ", least_ms, " is not in [0, 10000]"));
  const TransferMemory memory(unbound);
  auto read = std::make_unique<Read>(std::move(unbound), std::move(source), least_ms);
  OF_RETURN_IF_ERROR(read->MakeTransfers(memory));
  return read;
}

}  // namespace oneflow
