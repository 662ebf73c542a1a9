#include "actor/instruction/operands.h"

#include <algorithm>

#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

int PortIndex(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int id) {
  for (int i = 0; i < ports.size(); ++i) {
    if (ports[i].register_() == id) return i;
  }
  return -1;
}

TensorArg ShapeOf(const pb::Operand& operand) {
  TensorArg arg{.dtype = static_cast<DType>(operand.dtype()),
                .rank = operand.dims_size(),
                .count = 1,
                .dims = operand.dims().data(),
                .logical_dims = operand.logical_dims().data(),
                .start = operand.start().data(),
                .layout = static_cast<MemoryLayout>(operand.layout())};
  for (const int64_t dim : operand.dims()) arg.count *= dim;
  return arg;
}

}  // namespace

Operands::Operands(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction,
                   const JobMemory& memory)
    : num_inputs_(instruction.inputs_size()) {
  for (const pb::Operand& operand : instruction.inputs()) Add(plan, actor, operand, /*output=*/false, memory);
  for (const pb::Operand& operand : instruction.outputs()) Add(plan, actor, operand, /*output=*/true, memory);
}

void Operands::Add(const pb::Plan& plan, const pb::Actor& actor, const pb::Operand& operand, bool output,
                   const JobMemory& memory) {
  TensorArg arg = ShapeOf(operand);
  int rank = actor.rank();
  int zone = operand.zone();
  int64_t offset = operand.offset();
  int64_t slots = 1;
  Binding binding{.arg = args_.size()};
  if (operand.landed()) {
    const auto& landing = *std::find_if(actor.landings().begin(), actor.landings().end(),
                                        [&](const pb::Landing& x) { return x.register_() == operand.register_(); });
    zone = kWorkZone;
    offset += landing.offset();
    slots = plan.registers(operand.register_()).slots();
    binding.stride = slots > 1 ? landing.slot_stride() : 0;
    binding.port = PortIndex(actor.inputs(), operand.register_());
  } else if (operand.register_() >= 0) {
    const pb::Register& reg = plan.registers(operand.register_());
    rank = plan.actors(reg.producer()).rank();
    zone = reg.zone();
    offset += reg.offset();
    slots = reg.slots();
    binding.stride = slots > 1 ? reg.slot_stride() : 0;
    // An input that is no input port is a variable which this actor overwrites.
    binding.port = output ? -1 : PortIndex(actor.inputs(), operand.register_());
    binding.output_port = binding.port < 0;
    if (binding.output_port) binding.port = PortIndex(actor.outputs(), operand.register_());
  }
  char* base = memory.Base(rank, zone);
  if (base != nullptr) arg.data = binding.base = base + offset;  // empty operands may have no zone behind them
  if (binding.stride != 0 && base != nullptr) bindings_.push_back(binding);
  args_.push_back(arg);
  const char* const begin = static_cast<const char*>(arg.data);
  reaches_.push_back({begin, begin == nullptr ? begin : begin + (slots - 1) * binding.stride + NumBytes(arg)});
}

void Operands::MoveTo(const Actor& actor) {
  for (const Binding& binding : bindings_) {
    const int64_t slot = binding.output_port ? actor.output_slot(binding.port) : actor.input_slot(binding.port);
    args_[binding.arg].data = binding.base + slot * binding.stride;
  }
}

}  // namespace oneflow
