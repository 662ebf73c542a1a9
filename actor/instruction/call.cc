// CALL: a host function. Where the host cannot address the device's memory, operands are brought to slots of host
// transfers before it, and what it wrote is brought back behind it.
#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "actor/check/bounds.h"
#include "actor/host_function.h"
#include "actor/instruction/attributes.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/operand_check.h"
#include "actor/instruction/transfer_memory.h"

namespace oneflow {
namespace {

class Call final : public BoundInstruction {
 public:
  Call(Unbound unbound, const OpDef& op, std::unique_ptr<HostFunction> function)
      : BoundInstruction(std::move(unbound.operands)),
        device_(unbound.context.device),
        micro_batches_(unbound.plan.micro_batches()),
        mutates_(op.mutates),
        function_(std::move(function)) {}

  absl::Status MakeTransfers(TransferMemory memory) {
    if (device_.host_accessible()) return absl::OkStatus();
    for (const auto& operands : {operands_.inputs(), operands_.outputs()}) {
      for (const TensorArg& x : operands) {
        OF_ASSIGN_OR_RETURN(transfers_.emplace_back(), memory.Make(NumBytes(x)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Run(const CurrentAct& act) override {
    if (device_.host_accessible()) return CallWith(act, operands_.inputs(), operands_.outputs());
    const int slot = slot_;
    slot_ = (slot_ + 1) % HostTransfer::kSlots;
    std::vector<TensorArg> in(operands_.inputs().begin(), operands_.inputs().end());
    std::vector<TensorArg> out(operands_.outputs().begin(), operands_.outputs().end());
    for (size_t i = 0; i < transfers_.size(); ++i) {
      OF_RETURN_IF_ERROR(Checked(transfers_[i]->WaitForSlot(slot)));
      if (i < in.size()) OF_RETURN_IF_ERROR(Fetch(*transfers_[i], slot, in[i]));
      (i < in.size() ? in[i] : out[i - in.size()]).data = transfers_[i]->slot(slot);
    }
    OF_RETURN_IF_ERROR(CallWith(act, in, out));
    for (const int i : mutates_) OF_RETURN_IF_ERROR(Bring(*transfers_[i], slot, operands_.inputs()[i]));
    for (size_t i = 0; i < out.size(); ++i) {
      OF_RETURN_IF_ERROR(Bring(*transfers_[in.size() + i], slot, operands_.outputs()[i]));
    }
    return absl::OkStatus();
  }

  int64_t held_bytes() const override {
    int64_t bytes = 0;
    for (const auto& transfer : transfers_) bytes += static_cast<int64_t>(transfer->device_bytes());
    return bytes;
  }

 private:
  absl::Status Fetch(HostTransfer& transfer, int slot, const TensorArg& x) {
    int event = 0;
    OF_RETURN_IF_ERROR(Checked(transfer.ToHost(slot, x.data, NumBytes(x), &event)));
    return Checked(device_.WaitEvent(event));
  }
  static absl::Status Bring(HostTransfer& transfer, int slot, const TensorArg& x) {
    return Checked(transfer.ToDevice(x.data, slot, NumBytes(x)));
  }

  // Code from outside may throw; what it says is the job's error.
  absl::Status CallWith(const CurrentAct& act, std::span<const TensorArg> in, std::span<const TensorArg> out) {
    try {
      return function_->Call({in, out, act.step, act.micro_batch, micro_batches_});
    } catch (const std::exception& thrown) {
      return absl::InternalError(absl::StrCat("the host function threw: ", thrown.what()));
    }
  }

  DeviceContext& device_;
  const int64_t micro_batches_;
  const std::vector<int> mutates_;
  const std::unique_ptr<HostFunction> function_;
  std::vector<std::unique_ptr<HostTransfer>> transfers_;  // one per operand, inputs first, or none
  int slot_ = 0;                                          // of the next run
};

absl::StatusOr<const OpDef*> OpOf(const Unbound& unbound) {
  OF_ASSIGN_OR_RETURN(const OpDef* const op, unbound.context.ops.Get(unbound.instruction.op()));
  if (op->kind == OpKind::kCall) return op;
  return absl::InvalidArgumentError(absl::StrCat("op '", op->name, "' has a kernel, and no host function"));
}

}  // namespace

absl::Status CheckHostCall(const Unchecked& unchecked) {
  return unchecked.instruction.op().empty() ? Malformed("it names no op") : absl::OkStatus();
}

BoundOrError BindHostCall(Unbound unbound) {
  OF_ASSIGN_OR_RETURN(const OpDef* const op, OpOf(unbound));
  const AttrMap attrs = ToAttrMap(unbound.instruction.attributes());
  OF_RETURN_IF_ERROR(CheckOperands(*op, attrs, unbound.plan, unbound.actor, unbound.instruction));
  OF_ASSIGN_OR_RETURN(std::unique_ptr<HostFunction> function, OpenHostFunction(op->name, attrs));
  const TransferMemory memory(unbound);
  auto call = std::make_unique<Call>(std::move(unbound), *op, std::move(function));
  OF_RETURN_IF_ERROR(call->MakeTransfers(memory));
  return call;
}

}  // namespace oneflow
