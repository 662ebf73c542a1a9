#include "tools/study/sim/op_work.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "actor/instruction/attributes.h"

namespace oneflow {
namespace {

std::vector<TensorType> Types(const google::protobuf::RepeatedPtrField<pb::Operand>& operands) {
  std::vector<TensorType> types;
  for (const pb::Operand& operand : operands) {
    types.push_back({static_cast<DType>(operand.dtype()),
                     Shape(std::vector<int64_t>(operand.dims().begin(), operand.dims().end()))});
  }
  return types;
}

double Bytes(const std::vector<TensorType>& types) {
  double bytes = 0;
  for (const TensorType& type : types) {
    bytes += static_cast<double>(type.shape.count()) * static_cast<double>(SizeOf(type.dtype));
  }
  return bytes;
}

std::vector<ShardType> Shards(const google::protobuf::RepeatedPtrField<pb::Operand>& operands) {
  std::vector<ShardType> shards;
  for (const TensorType& type : Types(operands)) shards.push_back({type.dtype, type.shape, type.shape});
  return shards;
}

// Those of the op on the rank's shards.
AttrMap Attributes(const OpDef& op, const pb::Instruction& instruction) {
  const AttrMap attrs = ToAttrMap(instruction.attributes());
  if (op.shard_attrs == nullptr) return attrs;
  return op.shard_attrs(attrs, Shards(instruction.inputs()), Shards(instruction.outputs()));
}

double CopiedBytes(const pb::Instruction& copy, const std::vector<TensorType>& outputs) {
  double elements = 0;
  for (const pb::Piece& piece : copy.pieces()) {
    double count = 1;
    for (const int64_t extent : piece.extent()) count *= static_cast<double>(extent);
    elements += count;
  }
  return 2 * elements * static_cast<double>(SizeOf(outputs[0].dtype));
}

}  // namespace

OpWork WorkOf(const pb::Instruction& instruction, const OpRegistry& ops) {
  const std::vector<TensorType> inputs = Types(instruction.inputs()), outputs = Types(instruction.outputs());
  const bool copy = instruction.kind() == pb::Instruction::COPY;
  OpWork work{.calls = 1, .bytes = copy ? CopiedBytes(instruction, outputs) : Bytes(inputs) + Bytes(outputs)};
  const bool has_op = instruction.kind() == pb::Instruction::COMPUTE || instruction.kind() == pb::Instruction::CALL;
  const OpDef* const def = has_op ? ops.Find(instruction.op()) : nullptr;
  if (def == nullptr) return work;
  if (def->flops != nullptr) work.flops = def->flops(inputs, outputs, Attributes(*def, instruction));
  const bool only_writes = instruction.op() == "assign";
  for (const int i : def->mutates) work.bytes += only_writes ? 0 : Bytes({inputs[i]});
  if (def->kind == OpKind::kAccumulate) work.bytes += Bytes(outputs);  // what is there is read
  return work;
}

double ProductRate(const DeviceSpeeds& device, const pb::Instruction& instruction) {
  if (instruction.inputs().empty()) return device.f32_flops;
  switch (instruction.inputs(0).dtype()) {
    case pb::BF16:
      return device.bf16_flops;
    case pb::F16:
      return device.f16_flops;
    default:
      return device.f32_flops;
  }
}

double FloorSeconds(const pb::Instruction& instruction, const OpWork& work, const DeviceSpeeds& device) {
  const bool looks_up = instruction.op() == "embedding" || instruction.op() == "gather";
  double bytes = looks_up ? 2 * Bytes(Types(instruction.outputs())) : work.bytes;
  if (instruction.op() == "add_embedding_grad") {  // in place: of the table, rows that are read and written
    const TensorType added = Types(instruction.inputs())[1];
    bytes = static_cast<double>(added.shape.count()) * static_cast<double>(SizeOf(added.dtype) + 2 * sizeof(float));
  }
  return std::max(work.flops / ProductRate(device, instruction), bytes / device.memory_bytes_per_s);
}

std::map<std::string, OpWork> WorkOfPlan(const pb::Plan& plan, const OpRegistry& ops, const DeviceSpeeds* device) {
  std::map<std::string, OpWork> sums;
  for (const pb::Actor& actor : plan.actors()) {
    const double acts = actor.acts_per_step();
    for (const pb::Instruction& instruction : actor.instructions()) {
      const bool compute = instruction.kind() == pb::Instruction::COMPUTE;
      OpWork& sum =
          sums[compute ? instruction.op() : absl::AsciiStrToLower(pb::Instruction::Kind_Name(instruction.kind()))];
      const OpWork work = WorkOf(instruction, ops);
      sum.calls += acts * work.calls;
      sum.flops += acts * work.flops;
      sum.bytes += acts * work.bytes;
      if (device != nullptr) sum.floor_seconds += acts * FloorSeconds(instruction, work, *device);
    }
  }
  return sums;
}

}  // namespace oneflow
