#include "compiler/lower/plan_boxings.h"

#include "absl/strings/str_cat.h"

namespace oneflow {

PlanBoxings::PlanBoxings(const pb::ClassPlan& plan, const PlanReader& reader, BoxingShares& shares)
    : plan_(plan), reader_(reader), shares_(shares) {}

absl::StatusOr<GroupBoxing*> PlanBoxings::Of(int rank, const pb::ClassInstruction& boxing) {
  const auto [found, is_new] =
      found_.try_emplace({boxing.inputs(0).tensor(), boxing.outputs(0).tensor(), rank}, nullptr);
  if (!is_new && found->second != nullptr) return found->second;
  const PlanReader::Tensor& from = reader_.tensor(boxing.inputs(0).tensor());
  const PlanReader::Tensor& to = reader_.tensor(boxing.outputs(0).tensor());
  if (from.type != to.type || (from.dist.placement.IndexOf(rank) < 0 && to.dist.placement.IndexOf(rank) < 0)) {
    return absl::InvalidArgumentError(absl::StrCat("boxing '", boxing.node(), "': from ", from.type.ToString(), " ",
                                                   from.dist.ToString(), " to ", to.type.ToString(), " ",
                                                   to.dist.ToString(), " on rank ", rank));
  }
  OF_ASSIGN_OR_RETURN(found->second, shares_.Find(from.type, from.dist, to.dist, rank));
  return found->second;
}

absl::StatusOr<const GroupBoxing::Copies*> PlanBoxings::CopiesTo(int rank, const pb::ClassInstruction& instruction,
                                                                 GroupBoxing& boxing) {
  const int destination = boxing.to().IndexOf(rank);
  if (destination >= 0) return &boxing.CopiesOf(destination);
  return absl::InvalidArgumentError(absl::StrCat("boxing '", instruction.node(), "' gives rank ", rank, " nothing"));
}

// Inputs: the shard; for ragged rows also its counts and those of the result.
bool PlanBoxings::ReadsOwn(const BoxingShare& share, const pb::ClassInstruction& boxing, int reg) {
  for (int i = 0; i < boxing.inputs_size(); ++i) {
    const pb::ClassOperand& input = boxing.inputs(i);
    if (input.place() != pb::ClassOperand::REGISTER || input.index() != reg) continue;
    if (i < 2 ? share.reads_shard() : share.receives) return true;
  }
  return false;
}

const std::vector<const pb::ClassInstruction*>& PlanBoxings::ThatRead(int actor, int reg) {
  static const auto* const kNone = new std::vector<const pb::ClassInstruction*>;
  const auto [of_actor, is_new] = readers_.try_emplace(actor);
  ByRegister& readers = of_actor->second;
  for (int i = 0; is_new && i < plan_.actors(actor).instructions_size(); ++i) {
    const pb::ClassInstruction& instruction = plan_.actors(actor).instructions(i);
    if (instruction.kind() != pb::Instruction::COPY) continue;
    for (const pb::ClassOperand& input : instruction.inputs()) {  // counts are read from the ranks of the rows
      if (input.place() == pb::ClassOperand::REGISTER) readers[input.index()].push_back(&instruction);
    }
  }
  const auto it = readers.find(reg);
  return it == readers.end() ? *kNone : it->second;
}

}  // namespace oneflow
