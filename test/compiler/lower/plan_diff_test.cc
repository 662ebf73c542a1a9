// What changed between two plans, in words.
#include "compiler/lower/plan_diff.h"

#include "compiler/lower/compile.h"
#include "compiler/lower/plan_check.h"
#include "compiler/lower/plan_text.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/compiler/plan/random_job.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

pb::PlanSet PlanToCompare(const StepShape& shape) {
  return *CompileBoxed({{TrainingStep(shape), shape.micro_batches}}, OptionsFor(shape), Ops());
}

std::string Diff(const pb::PlanSet& a, const pb::PlanSet& b) {
  const absl::StatusOr<std::string> diff = PlanDiff(a, b);
  EXPECT_OK(diff);
  return diff.value_or("");
}

TEST(PlanDiffTest, OfEqualPlansNothingChanged) {
  EXPECT_EQ(Diff(PlanToCompare({2, 2, 4}), PlanToCompare({2, 2, 4})), "nothing changed\n");
}

TEST(PlanDiffTest, ASlotMoreIsOneLine) {
  const pb::PlanSet a = PlanToCompare({1, 1, 2});
  pb::PlanSet b = a;
  pb::ClassRegister* reg = nullptr;
  for (pb::ClassRegister& one : *b.mutable_plans(0)->mutable_registers()) {
    if (one.variable() < 0) reg = &one;
  }
  ASSERT_NE(reg, nullptr);
  const int slots = reg->slots();
  reg->set_slots(slots + 5);
  EXPECT_EQ(Diff(a, b), absl::StrCat("plan 'train'\n  registers\n    ", slots, slots == 1 ? " slot" : " slots", " -> ",
                                     slots + 5, " slots: '", reg->name(), "'\n"));
}

TEST(PlanDiffTest, WhatIsNotLookedAtIsSaidToHaveChanged) {
  const pb::PlanSet a = PlanToCompare({1, 1, 1});
  pb::PlanSet b = a;
  b.mutable_plans(0)->mutable_actors(0)->set_priority(77);
  EXPECT_THAT(Diff(a, b), HasSubstr("only facts that are not compared here changed"));
}

// More data parallelism: everything lies on more ranks and gradients travel.
TEST(PlanDiffTest, AnotherMeshIsToldByLayoutsBoxingsMemoryAndBytes) {
  const pb::PlanSet a = PlanToCompare({1, 1, 1}), b = PlanToCompare({1, 2, 1});
  const std::string diff = Diff(a, b);
  EXPECT_THAT(diff, AllOf(HasSubstr("hosts: 1 ranks on cpu"), HasSubstr("variables\n"), HasSubstr("plan 'train'\n"),
                          HasSubstr("  mesh: "), HasSubstr("  boxings\n    + "), HasSubstr("bytes a step"),
                          HasSubstr("  actors of communication: 0 (0 acts) -> ")));
  EXPECT_THAT(diff, HasSubstr(absl::StrCat("  moved per step: 0 -> ", *PlannedBytesMoved(b, b.plans(0)), " bytes\n")));
}

TEST(PlanDiffTest, StagesThatChangedAlikeAreToldOnce) {
  const std::string diff = Diff(PlanToCompare({4, 1, 2}), PlanToCompare({4, 2, 2}));
  EXPECT_THAT(diff, HasSubstr("'s*/"));
  EXPECT_THAT(diff, HasSubstr("(4 alike)"));
}

TEST(PlanDiffTest, PlansThatOnlyOneHasAreNamed) {
  const StepShape shape{1, 2, 1};
  const pb::PlanSet one = PlanToCompare(shape);
  const pb::PlanSet two =
      *CompileBoxed({{TrainingStep(shape), 1}, {TrainingStep(shape, "again"), 1}}, OptionsFor(shape), Ops());
  EXPECT_THAT(Diff(one, two), HasSubstr("+ plan 'again'\n"));
  EXPECT_THAT(Diff(two, one), HasSubstr("- plan 'again'\n"));
}

// Law: of random plans the diff with itself is empty, and that of two is never.
TEST(PlanDiffTest, RandomPlansDifferFromOthersAndNotFromThemselves) {
  pb::PlanSet before = PlanToCompare({1, 1, 1});
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const testing::RandomJob job = testing::MakeRandomJob(seed);
    const absl::StatusOr<pb::PlanSet> set = CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, Ops());
    if (!set.ok()) continue;
    EXPECT_EQ(Diff(*set, *set), "nothing changed\n");
    EXPECT_THAT(Diff(before, *set), Not(HasSubstr("nothing changed")));
    before = *set;
  }
}

}  // namespace
}  // namespace oneflow
