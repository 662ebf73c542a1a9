// READ: a data source fills the outputs, by way of host copies where the host cannot address the device's memory.
#include <vector>

#include "actor/instruction/attributes.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/operand_check.h"

namespace oneflow {
namespace {

class Read final : public BoundInstruction {
 public:
  Read(Unbound unbound, std::shared_ptr<Source> source)
      : BoundInstruction(std::move(unbound.operands)),
        device_(unbound.context.device),
        micro_batches_(unbound.plan.micro_batches()),
        source_(std::move(source)) {
    if (device_.host_accessible()) return;
    for (const TensorArg& output : operands_.outputs()) staging_.emplace_back(NumBytes(output));
  }

  absl::Status Run(const CurrentAct& act) override {
    if (device_.host_accessible()) {
      return source_->Read(act.step, act.micro_batch, micro_batches_, operands_.outputs());
    }
    std::vector<TensorArg> staged(operands_.outputs().begin(), operands_.outputs().end());
    for (size_t i = 0; i < staged.size(); ++i) staged[i].data = staging_[i].data();
    OF_RETURN_IF_ERROR(source_->Read(act.step, act.micro_batch, micro_batches_, staged));
    for (size_t i = 0; i < staged.size(); ++i) {
      const void* from = staging_[i].data();
      OF_RETURN_IF_ERROR(Checked(device_.CopyFromHost(operands_.outputs()[i].data, from, staging_[i].size())));
    }
    return absl::OkStatus();
  }

 private:
  DeviceContext& device_;
  const int64_t micro_batches_;
  const std::shared_ptr<Source> source_;
  std::vector<std::vector<char>> staging_;  // one per output
};

}  // namespace

BoundOrError BindRead(Unbound unbound) {
  const AttrMap attrs = ToAttrMap(unbound.instruction.attributes());
  OF_ASSIGN_OR_RETURN(const OpDef* const read_data, unbound.context.ops.Get("read_data"));
  OF_RETURN_IF_ERROR(CheckOperands(*read_data, attrs, unbound.plan, unbound.actor, unbound.instruction));
  OF_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, unbound.context.sources.Open(attrs));
  return std::make_unique<Read>(std::move(unbound), std::move(source));
}

}  // namespace oneflow
