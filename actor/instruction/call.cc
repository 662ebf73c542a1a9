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
#include "actor/instruction/host_staging.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/operand_check.h"

namespace oneflow {
namespace {

class Call final : public BoundInstruction {
 public:
  Call(Unbound unbound, const OpDef& op, std::unique_ptr<HostFunction> function)
      : BoundInstruction(std::move(unbound.operands)),
        device_(unbound.context.device),
        micro_batches_(unbound.plan.micro_batches()),
        mutates_(op.mutates),
        staging_(unbound.context.device),
        function_(std::move(function)) {}

  absl::Status MakeTransfers(TransferMemory memory) {
    if (device_.host_accessible()) return absl::OkStatus();
    OF_RETURN_IF_ERROR(staging_.Make(memory, operands_.inputs()));
    return staging_.Make(memory, operands_.outputs());
  }

  absl::Status Run(const CurrentAct& act) override {
    if (device_.host_accessible()) return CallWith(act, operands_.inputs(), operands_.outputs());
    std::vector<TensorArg> in(operands_.inputs().begin(), operands_.inputs().end());
    std::vector<TensorArg> out(operands_.outputs().begin(), operands_.outputs().end());
    const int inputs = static_cast<int>(in.size()), outputs = static_cast<int>(out.size());
    OF_RETURN_IF_ERROR(staging_.TakeSlots());
    for (int i = 0; i < inputs; ++i) {
      OF_RETURN_IF_ERROR(staging_.ToHost(i, in[i]));
      in[i].data = staging_.slot(i);
    }
    for (int i = 0; i < outputs; ++i) out[i].data = staging_.slot(inputs + i);
    OF_RETURN_IF_ERROR(CallWith(act, in, out));
    for (const int i : mutates_) OF_RETURN_IF_ERROR(staging_.ToDevice(i, operands_.inputs()[i]));
    for (int i = 0; i < outputs; ++i) OF_RETURN_IF_ERROR(staging_.ToDevice(inputs + i, operands_.outputs()[i]));
    return absl::OkStatus();
  }

  int64_t held_bytes() const override { return staging_.held_bytes(); }

 private:
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
  HostStaging staging_;  // of inputs, then of outputs
  const std::unique_ptr<HostFunction> function_;
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
