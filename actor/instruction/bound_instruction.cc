#include "actor/instruction/bound_instruction.h"

#include "actor/instruction/kinds.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<BoundInstruction>> BindInstruction(const RankContext& context, const pb::Plan& plan,
                                                                  const pb::Actor& actor,
                                                                  const pb::Instruction& instruction) {
  Unbound unbound{context, plan, actor, instruction, Operands(plan, actor, instruction, context.memory)};
  switch (instruction.kind()) {
    case pb::Instruction::COMPUTE:
      return BindCompute(std::move(unbound));
    case pb::Instruction::COPY:
      return BindCopy(std::move(unbound));
    case pb::Instruction::COLLECTIVE:
      return BindCollective(std::move(unbound));
    case pb::Instruction::READ:
      return BindRead(std::move(unbound));
    default:
      return BindFetch(std::move(unbound));
  }
}

}  // namespace oneflow
