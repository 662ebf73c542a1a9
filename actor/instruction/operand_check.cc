#include "actor/instruction/operand_check.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/check/bounds.h"
#include "actor/instruction/operand_memory.h"
#include "oneflow_core/ragged.h"

namespace oneflow {
namespace {

using Shards = absl::Span<const ShardType>;

std::vector<TensorType> TypesOf(Shards shards, Shape ShardType::*shape) {
  std::vector<TensorType> types;
  types.reserve(shards.size());
  for (const ShardType& shard : shards) types.push_back({shard.dtype, shard.*shape, shard.ragged});
  return types;
}

// `shape` selects one of the two shapes of the shards in the context.
absl::Status CheckTypes(const OpDef& op, const InferContext& context, Shards outputs, Shape ShardType::*shape) {
  OF_ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferTypes(op, context));
  if (types.size() != outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", outputs.size(), " outputs but the op gives ", types.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const TensorType type = {outputs[i].dtype, outputs[i].*shape, outputs[i].ragged};
    if (type == types[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("output ", i, " is ", type.ToString(), " but the op gives ", types[i].ToString()));
  }
  return absl::OkStatus();
}

// Groups of operands are the same for shards as for their tensors: they depend only on which sizes are equal.
absl::Status CheckMemoryLayouts(const OpDef& op, const AttrMap& attrs, Shards inputs, Shards outputs) {
  std::vector<MemoryLayout> layouts;
  for (const ShardType& x : inputs) layouts.push_back(x.layout);
  for (const ShardType& x : outputs) layouts.push_back(x.layout);
  return CheckLayouts(
      BlockGroups(op, TypesOf(inputs, &ShardType::logical_dims), TypesOf(outputs, &ShardType::logical_dims), attrs),
      layouts);
}

bool AreWhole(Shards shards) {
  return std::all_of(shards.begin(), shards.end(), [](const ShardType& x) { return x.dims == x.logical_dims; });
}

Shape ShapeOf(const Dims& dims) { return Shape(std::vector<int64_t>(dims.begin(), dims.end())); }

}  // namespace

std::vector<ShardType> ShardsOf(const google::protobuf::RepeatedPtrField<pb::Operand>& operands) {
  std::vector<ShardType> shards;
  shards.reserve(operands.size());
  for (const pb::Operand& x : operands) {
    shards.push_back({static_cast<DType>(x.dtype()), ShapeOf(x.dims()), ShapeOf(x.logical_dims()), x.ragged() - 1,
                      static_cast<MemoryLayout>(x.layout())});
  }
  return shards;
}

absl::Status CheckCall(const OpDef& op, const AttrMap& attrs, Shards inputs, Shards outputs) {
  OF_RETURN_IF_ERROR(
      CheckTypes(op, {TypesOf(inputs, &ShardType::logical_dims), attrs}, outputs, &ShardType::logical_dims));
  OF_RETURN_IF_ERROR(CheckMemoryLayouts(op, attrs, inputs, outputs));
  if (AreWhole(inputs) && AreWhole(outputs)) return absl::OkStatus();
  const std::vector<TensorType> parts = TypesOf(inputs, &ShardType::dims);
  const AttrMap of_shards = op.shard_attrs == nullptr ? attrs : op.shard_attrs(attrs, inputs, outputs);
  return Annotate(CheckTypes(op, {parts, of_shards, /*of_shards=*/true}, outputs, &ShardType::dims), "its shards");
}

absl::Status CheckOperands(const OpDef& op, const AttrMap& attrs, const pb::Plan& plan, const pb::Actor& actor,
                           const pb::Instruction& instruction) {
  OF_RETURN_IF_ERROR(CheckCall(op, attrs, ShardsOf(instruction.inputs()), ShardsOf(instruction.outputs())));
  return CheckOperandMemory(op, plan, actor, instruction);
}

}  // namespace oneflow
