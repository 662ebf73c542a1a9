// Checks that an instruction gives a kernel the operands that its op takes. A kernel trusts their number, dtypes,
// shapes and its attributes, and would otherwise read and write outside of them.
//
//   logical types of the inputs, attributes             ── infer ──► logical types of the outputs
//   types of the shards, attributes of a shard          ── infer ──► types of the output shards
//
// Not checked, because it takes the layout of the operands: that dimensions which the op identifies are the same part,
// not [4,8) in one operand and [0,4) in the other. Such a program computes nonsense, within its memory.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/op.h"
#include "proto/program.pb.h"

namespace oneflow {

// InvalidArgument, with both values, unless `op` takes such inputs and gives such outputs, whole and in these parts.
// REQUIRES: both shapes of each operand have as many dimensions.
absl::Status CheckCall(const OpDef& op, const AttrMap& attrs, absl::Span<const ShardType> inputs,
                       absl::Span<const ShardType> outputs);

// The types of operands, whole and in their shards.
std::vector<ShardType> ShardsOf(const google::protobuf::RepeatedPtrField<pb::Operand>& operands);

// The same for an instruction of `actor`, and the places of its operands (operand_memory.h). REQUIRES: the program
// passed CheckProgram.
absl::Status CheckOperands(const OpDef& op, const AttrMap& attrs, const pb::Plan& plan, const pb::Actor& actor,
                           const pb::Instruction& instruction);

}  // namespace oneflow
