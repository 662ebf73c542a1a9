#include "actor/instruction/kinds.h"

#include <functional>
#include <map>
#include <string>

#include "actor/program_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(InstructionKindsTest, EveryKindOfTheFormatHasOneRowWithACheckAndABinder) {
  const google::protobuf::EnumDescriptor& kinds = *pb::Instruction::Kind_descriptor();
  EXPECT_EQ(static_cast<int>(InstructionKinds().size()), kinds.value_count());
  for (int i = 0; i < kinds.value_count(); ++i) {
    SCOPED_TRACE(kinds.value(i)->name());
    const auto kind = static_cast<pb::Instruction::Kind>(kinds.value(i)->number());
    const InstructionKind* const row = FindKind(kind);
    ASSERT_NE(row, nullptr);
    EXPECT_EQ(row->kind, kind);
    EXPECT_NE(row->check, nullptr);
    EXPECT_NE(row->bind, nullptr);
  }
}

TEST(InstructionKindsTest, ANumberThatIsNoKindHasNoRow) {
  EXPECT_EQ(FindKind(static_cast<pb::Instruction::Kind>(99)), nullptr);
}

// An instruction that says its kind and nothing else: only the check of its own kind can refuse it.
TEST(InstructionKindsTest, TheCheckOfEachKindRefusesAnInstructionWithoutContents) {
  const std::map<pb::Instruction::Kind, std::string> errors = {
      {pb::Instruction::COMPUTE, "it names no op"},
      {pb::Instruction::COPY, "a copy has one output, not 0"},
      {pb::Instruction::COLLECTIVE, "communicator 0 is not one of 0"},
      {pb::Instruction::READ, "it has no outputs"},
      {pb::Instruction::FETCH, "a fetch has one input, not 0"},
      {pb::Instruction::CALL, "it names no op"},
      {pb::Instruction::MOVE, "a move has one input or two, and one output, not 0 and 0"},
  };
  for (const InstructionKind& row : InstructionKinds()) {
    SCOPED_TRACE(pb::Instruction::Kind_Name(row.kind));
    ASSERT_TRUE(errors.contains(row.kind)) << "say here how the new kind refuses an instruction without contents";
    TestPlan plan({0}, 1);
    plan.Actor(0, "lonely");
    EXPECT_OK(CheckProgram(plan.set(), 1));
    plan.set().mutable_plans(0)->mutable_actors(0)->add_instructions()->set_kind(row.kind);
    EXPECT_THAT(CheckProgram(plan.set(), 1),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(errors.at(row.kind))));
  }
}

}  // namespace
}  // namespace oneflow
