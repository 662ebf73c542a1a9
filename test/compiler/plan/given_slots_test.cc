// Slots that a job names: which may be, and what is refused.
#include "compiler/lower/compile.h"
#include "proto/plan.pb.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Two stages of two ranks and four micro-batches, with these slots.
absl::StatusOr<pb::PlanSet> WithSlots(const std::map<std::string, int>& slots) {
  const StepShape shape{2, 2, 4};
  CompileOptions options = OptionsFor(shape);
  if (!slots.empty()) options.slots["train"] = slots;
  return CompileBoxed({{TrainingStep(shape), shape.micro_batches}}, options, testing::Ops());
}

TEST(GivenSlotsTest, ARegisterHasTheSlotsThatTheJobNames) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet by_credits, WithSlots({}));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, WithSlots({{"s1/receive", 4}}));
  ASSERT_EQ(set.plans(0).registers_size(), by_credits.plans(0).registers_size());
  int changed = 0;
  for (int r = 0; r < set.plans(0).registers_size(); ++r) {
    const pb::ClassRegister &reg = set.plans(0).registers(r), &before = by_credits.plans(0).registers(r);
    EXPECT_EQ(reg.slots(), reg.name() == "s1/receive" ? 4 : before.slots()) << reg.name();
    changed += reg.slots() != before.slots();
  }
  EXPECT_EQ(changed, 1);
}

TEST(GivenSlotsTest, WhatCannotBeNamesTheRegister) {
  EXPECT_THAT(WithSlots({{"s1/recieve", 4}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("slots of register 's1/recieve': there is no such register in plan 'train'")));
  EXPECT_THAT(WithSlots({{"s1/receive", 0}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 is not in [1, 65536]")));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet by_credits, WithSlots({}));
  int states = 0;
  for (const pb::ClassRegister& reg : by_credits.plans(0).registers()) {
    if (reg.initially_filled() == 0) continue;
    ++states;
    EXPECT_THAT(WithSlots({{reg.name(), 2}}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it holds the state of a variable and has 1")));
    EXPECT_OK(WithSlots({{reg.name(), 1}}).status()) << "as it is";
  }
  EXPECT_GT(states, 0);
}

}  // namespace
}  // namespace oneflow
