// Whether an instruction gives a kernel the operands that its op takes: a kernel trusts their number, dtypes, shapes
// and its attributes, and would read and write outside of them otherwise.
//
//   logical types of the inputs, attributes             ── infer ──► logical types of the outputs
//   types of the shards, attributes of a shard          ── infer ──► types of the output shards
//
// What is not checked, since it takes the layout of the operands: that dimensions which are one to the op are the same
// part of it, [4,8) in one operand and not [0,4) in the other. Such a program computes nonsense, within its memory.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/op.h"
#include "proto/program.pb.h"

namespace oneflow {

// InvalidArgument, with both values, unless `op` takes such inputs and gives such outputs, whole and in these parts.
// REQUIRES: of each operand both shapes have as many dimensions.
absl::Status CheckCall(const OpDef& op, const AttrMap& attrs, absl::Span<const ShardType> inputs,
                       absl::Span<const ShardType> outputs);

// What operands are, where they lie.
std::vector<ShardType> ShardsOf(const google::protobuf::RepeatedPtrField<pb::Operand>& operands);

// The same of an instruction of `actor`, and where its operands lie (operand_memory.h). REQUIRES: the program passed
// CheckProgram.
absl::Status CheckOperands(const OpDef& op, const AttrMap& attrs, const pb::Plan& plan, const pb::Actor& actor,
                           const pb::Instruction& instruction);

}  // namespace oneflow
