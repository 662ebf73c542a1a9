#include "tools/study/sim/instruction_text.h"

#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/memory_layout.h"

namespace oneflow {
namespace {

using Operands = google::protobuf::RepeatedPtrField<pb::Operand>;

std::string TypeText(const pb::Operand& operand) {
  return absl::StrCat(Name(static_cast<DType>(operand.dtype())), "[", absl::StrJoin(operand.dims(), ","), "]",
                      Suffix(static_cast<MemoryLayout>(operand.layout())));
}

std::string TypesText(const Operands& operands) {
  return absl::StrJoin(operands, ", ",
                       [](std::string* out, const pb::Operand& x) { absl::StrAppend(out, TypeText(x)); });
}

std::string AttributeText(const pb::Attribute& attribute) {
  switch (attribute.value_case()) {
    case pb::Attribute::kB:
      return attribute.b() ? "true" : "false";
    case pb::Attribute::kI:
      return absl::StrCat(attribute.i());
    case pb::Attribute::kF:
      return absl::StrCat(attribute.f());
    case pb::Attribute::kS:
      return absl::StrCat("'", attribute.s(), "'");
    case pb::Attribute::kInts:
      return absl::StrCat("[", absl::StrJoin(attribute.ints().values(), ","), "]");
    case pb::Attribute::VALUE_NOT_SET:
      break;
  }
  return "";
}

// Which random numbers are drawn, and what a value is called, changes no time.
bool Matters(const pb::Instruction& instruction, const std::string& name) {
  if (instruction.kind() == pb::Instruction::FETCH) return false;
  return name != "seed" && name != "key";
}

std::string AttributesText(const pb::Instruction& instruction) {
  std::vector<std::string> texts;
  for (const pb::Attribute& attribute : instruction.attributes()) {
    if (Matters(instruction, attribute.name())) {
      texts.push_back(absl::StrCat(attribute.name(), "=", AttributeText(attribute)));
    }
  }
  return texts.empty() ? "" : absl::StrCat(" {", absl::StrJoin(texts, " "), "}");
}

int RankOf(const pb::Plan& plan, const pb::Actor& actor, const pb::Operand& operand) {
  return operand.register_() < 0 ? actor.rank() : plan.actors(plan.registers(operand.register_()).producer()).rank();
}

// How many elements lie one behind another on both sides.
int64_t RunOf(const pb::Piece& piece) {
  int64_t run = 1;
  for (int i = piece.extent_size() - 1; i >= 0; --i) {
    if (piece.extent(i) == 1) continue;
    if (piece.source_stride(i) != run || piece.target_stride(i) != run) break;
    run *= piece.extent(i);
  }
  return run;
}

std::string PiecesText(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor,
                       const pb::Instruction& copy) {
  std::vector<std::pair<std::string, int>> pieces;  // in their order, and how many of each
  std::map<std::string, size_t> index;
  for (const pb::Piece& piece : copy.pieces()) {
    std::string text = absl::StrCat(
        piece.accumulate() ? "x+ [" : "x [", absl::StrJoin(piece.extent(), ","), "] in runs of ", RunOf(piece),
        " from ", DistanceText(program, RankOf(plan, actor, copy.inputs(piece.input())), actor.rank()));
    const auto [it, is_new] = index.try_emplace(text, pieces.size());
    if (is_new) pieces.push_back({std::move(text), 0});
    ++pieces[it->second].second;
  }
  return absl::StrJoin(pieces, ", ", [](std::string* out, const auto& x) { absl::StrAppend(out, x.second, x.first); });
}

}  // namespace

const char* DistanceText(const pb::Program& program, int from, int to) {
  if (from == to) return "its rank";
  return program.ranks(from).process() == program.ranks(to).process() ? "ranks" : "processes";
}

std::string InstructionText(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor,
                            const pb::Instruction& instruction) {
  if (instruction.kind() == pb::Instruction::COPY) {
    return absl::StrCat("copy ", TypesText(instruction.outputs()), instruction.zero_fill() ? " zeroed " : " ",
                        absl::AsciiStrToLower(pb::Reduce_Name(instruction.reduce())), ": ",
                        PiecesText(program, plan, actor, instruction));
  }
  std::string op = instruction.op();
  if (instruction.kind() != pb::Instruction::COMPUTE) {
    op = absl::AsciiStrToLower(pb::Instruction::Kind_Name(instruction.kind()));
    if (instruction.kind() == pb::Instruction::COLLECTIVE) {
      absl::StrAppend(&op, " ", instruction.collective(), " of ",
                      program.communicators(instruction.communicator()).ranks_size());
    }
  }
  return absl::StrCat(op, "(", TypesText(instruction.inputs()), ") -> ", TypesText(instruction.outputs()),
                      AttributesText(instruction));
}

}  // namespace oneflow
