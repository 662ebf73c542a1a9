#include "actor/instruction/kinds.h"

namespace oneflow {
namespace {

constexpr InstructionKind kInstructionKinds[] = {
    {.kind = pb::Instruction::COMPUTE, .check = CheckCompute, .bind = BindCompute, .calls_kernel = true},
    {.kind = pb::Instruction::COPY, .check = CheckCopy, .bind = BindCopy, .reads_landings = true},
    {.kind = pb::Instruction::COLLECTIVE, .check = CheckCollective, .bind = BindCollective},
    {.kind = pb::Instruction::READ, .check = CheckRead, .bind = BindRead},
    {.kind = pb::Instruction::FETCH, .check = CheckFetch, .bind = BindFetch},
    {.kind = pb::Instruction::CALL, .check = CheckHostCall, .bind = BindHostCall},
    {.kind = pb::Instruction::MOVE, .check = CheckMove, .bind = BindMove, .reaches_tiers = true},
};

}  // namespace

absl::Span<const InstructionKind> InstructionKinds() { return kInstructionKinds; }

const InstructionKind* FindKind(pb::Instruction::Kind kind) {
  for (const InstructionKind& row : kInstructionKinds) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

}  // namespace oneflow
