// MOVE: copies a value between the rank's own memory and a tier below it (oneflow_core/tiers.h). The host's memory is
// copied in the order of the queue's stream. A file is read and written here, on the queue's thread; where the host
// cannot address the device's memory, through a slot of a host transfer.
#include <memory>
#include <utility>

#include "actor/check/bounds.h"
#include "actor/instruction/host_staging.h"
#include "actor/instruction/kinds.h"
#include "actor/tier_file.h"
#include "oneflow_core/tiers.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

class Move final : public BoundInstruction {
 public:
  Move(Unbound unbound, TierFile* file)
      : BoundInstruction(std::move(unbound.operands)),
        device_(unbound.context.device),
        file_(file),
        staging_(unbound.context.device) {}

  absl::Status MakeTransfer(TransferMemory memory) {
    if (file_ == nullptr || device_.host_accessible()) return absl::OkStatus();
    const TensorArg& here = Reads() ? to() : from();
    return staging_.Make(memory, {&here, 1});
  }

  absl::Status Run(const CurrentAct&) override {
    const int64_t bytes = static_cast<int64_t>(NumBytes(from()));
    if (bytes == 0) return absl::OkStatus();
    if (file_ == nullptr) return Checked(device_.Move(to().data, from().data, static_cast<size_t>(bytes)));
    const bool stages = !device_.host_accessible();
    if (stages) OF_RETURN_IF_ERROR(staging_.TakeSlots());
    if (Reads()) {
      char* const here = stages ? staging_.slot(0) : static_cast<char*>(to().data);
      OF_RETURN_IF_ERROR(file_->Read(static_cast<const char*>(from().data), bytes, here));
      return stages ? staging_.ToDevice(0, to()) : absl::OkStatus();
    }
    if (stages) OF_RETURN_IF_ERROR(staging_.ToHost(0, from()));
    const char* const here = stages ? staging_.slot(0) : static_cast<const char*>(from().data);
    return file_->Write(static_cast<char*>(to().data), bytes, here);
  }

  int64_t held_bytes() const override { return staging_.held_bytes(); }

 private:
  bool Reads() const { return file_->Holds(from().data); }
  const TensorArg& from() const { return operands_.inputs().back(); }
  // Where it is overwritten, the variable is an input, and the output, which has no bytes, says when.
  const TensorArg& to() const { return operands_.inputs().size() > 1 ? operands_.inputs()[0] : operands_.outputs()[0]; }

  DeviceContext& device_;
  TierFile* const file_;  // of the rank; null: the other end is in the host's memory
  HostStaging staging_;
};

int ZoneOf(const pb::Plan& plan, const pb::Operand& x) {
  return x.register_() >= 0 ? plan.registers(x.register_()).zone() : x.zone();
}

// Places in another rank's file are no memory, and other ranks' memory is not written.
absl::Status CheckIsOwn(const Unbound& unbound, const pb::Operand& x) {
  if (x.register_() < 0) return absl::OkStatus();
  const int rank = unbound.plan.actors(unbound.plan.registers(x.register_()).producer()).rank();
  if (rank == unbound.actor.rank()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("register ", x.register_(), " lies on rank ", rank,
                                                 "; a move stays on rank ", unbound.actor.rank()));
}

}  // namespace

absl::Status CheckMove(const Unchecked& unchecked) {
  const pb::Instruction& in = unchecked.instruction;
  if (in.inputs_size() < 1 || in.inputs_size() > 2 || in.outputs_size() != 1) {
    return Malformed("a move has one input or two, and one output, not ", in.inputs_size(), " and ", in.outputs_size());
  }
  const pb::Operand& from = in.inputs(in.inputs_size() - 1);
  const pb::Operand& to = in.inputs_size() == 2 ? in.inputs(0) : in.outputs(0);
  OF_ASSIGN_OR_RETURN(const int64_t given, NumBytes(from.dtype(), from.dims()));
  OF_ASSIGN_OR_RETURN(const int64_t taken, NumBytes(to.dtype(), to.dims()));
  if (given == taken) return absl::OkStatus();
  return Malformed("it moves ", given, " bytes to a place of ", taken);
}

BoundOrError BindMove(Unbound unbound) {
  const pb::Instruction& in = unbound.instruction;
  for (const pb::Operand& x : in.inputs()) OF_RETURN_IF_ERROR(CheckIsOwn(unbound, x));
  for (const pb::Operand& x : in.outputs()) OF_RETURN_IF_ERROR(CheckIsOwn(unbound, x));
  const int from = ZoneOf(unbound.plan, in.inputs(in.inputs_size() - 1));
  const int to = ZoneOf(unbound.plan, in.inputs_size() == 2 ? in.inputs(0) : in.outputs(0));
  if (ZoneKindOf(from).of_device == ZoneKindOf(to).of_device) {
    return absl::InvalidArgumentError(absl::StrCat("it moves from the ", ZoneName(from), " zone to the ", ZoneName(to),
                                                   " zone; one of them must be a tier's"));
  }
  const bool is_file = ZoneKindOf(from).in_file || ZoneKindOf(to).in_file;
  TierFile* const file = is_file ? unbound.context.memory.disk(unbound.context.rank) : nullptr;
  if (is_file == QueueKindOf(unbound.context.queue).launches) {
    return absl::InvalidArgumentError(absl::StrCat("queue '", QueueName(unbound.context.queue), "' does not move from ",
                                                   ZoneName(from), " to ", ZoneName(to)));
  }
  const TransferMemory memory(unbound);
  auto move = std::make_unique<Move>(std::move(unbound), file);
  OF_RETURN_IF_ERROR(move->MakeTransfer(memory));
  return move;
}

}  // namespace oneflow
