// What goes wrong in a simulation because somebody asked for it.
#include "tools/study/sim/injection.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// work@0 ──► after@1
TestPlan TwoRanks() {
  TestPlan plan({0, 1});
  const int work = plan.Actor(0, "work"), after = plan.Actor(1, "after");
  plan.Register("out", {work}, {{after}}, 1);
  return plan;
}

SimulatedCosts TenMicroseconds() {
  SimulatedCosts costs;
  costs.act = [](int32_t, int64_t) { return ActCost{.ns = 10'000}; };
  return costs;
}

TEST(InjectionTest, AFlagThatMakesNoSenseIsNamed) {
  ASSERT_OK_AND_ASSIGN(const Injection injection, ParseInjection({"1=1.5"}, {"3@0.25"}, 2, 7, 4));
  EXPECT_EQ(injection.slow.at(1), 1.5);
  EXPECT_EQ(injection.dies_ns.at(3), 250'000);
  EXPECT_EQ(injection.delay_ns, 2'000'000);
  EXPECT_THAT(injection.Touched(), ElementsAre(1, 3));
  for (const char* wrong : {"1", "1=", "one=2", "1=-2", "1=0", "1=2=3", "1=nan"}) {
    EXPECT_THAT(ParseInjection({wrong}, {}, 0, 1, 4).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--slow '")))
        << wrong;
  }
  EXPECT_THAT(ParseInjection({}, {"4@1"}, 0, 1, 4).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--kill '4@1': there is no rank 4 of 4")));
  EXPECT_THAT(ParseInjection({"1=2", "1=3"}, {}, 0, 1, 4).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, "--slow: rank 1 is named twice"));
  EXPECT_THAT(ParseInjection({}, {"2@1", "2@1"}, 0, 1, 4).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, "--kill: rank 2 is named twice"));
  EXPECT_THAT(ParseInjection({}, {}, -1, 1, 4).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--delay -1")));
}

TEST(InjectionTest, WhoWaitsForADeadRankIsSaid) {
  TestPlan plan = TwoRanks();
  const Injection injection{.dies_ns = {{0, 35'000}}};
  EXPECT_THAT(Simulate(plan.set(), 0, 9, Injected(TenMicroseconds(), injection)).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("actor 1 'after' on rank 1 waits for register 0 'out' slot 0 to be filled by "
                                       "actor 0 'work' on rank 0"),
                             HasSubstr("actor 0 'work' on rank 0 is dead"))));
  const Injection late{.dies_ns = {{0, 1'000'000}}};
  EXPECT_OK(Simulate(plan.set(), 0, 9, Injected(TenMicroseconds(), late)).status()) << "it is done by then";
}

TEST(InjectionTest, DelaysAreAFunctionOfTheirSeed) {
  TestPlan plan = TwoRanks();
  const auto end_ns = [&](uint64_t seed) {
    const Injection injection{.delay_ns = 5'000, .seed = seed};
    return Simulate(plan.set(), 0, 9, Injected(TenMicroseconds(), injection))->step_ends_ns.back();
  };
  const int64_t without = Simulate(plan.set(), 0, 9, TenMicroseconds())->step_ends_ns.back();
  EXPECT_EQ(end_ns(1), end_ns(1));
  EXPECT_NE(end_ns(1), end_ns(2));
  EXPECT_GT(end_ns(1), without);
}

}  // namespace
}  // namespace oneflow
