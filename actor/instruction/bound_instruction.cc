#include "actor/instruction/bound_instruction.h"

#include "actor/instruction/kinds.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<BoundInstruction>> BindInstruction(const RankContext& context, const pb::Plan& plan,
                                                                  const pb::Actor& actor,
                                                                  const pb::Instruction& instruction) {
  Unbound unbound{context, plan, actor, instruction, Operands(plan, actor, instruction, context.memory)};
  return FindKind(instruction.kind())->bind(std::move(unbound));
}

}  // namespace oneflow
