#include "tools/job/step_clock.h"

#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace oneflow {
namespace {

// What a clock says at the last of these ticks, {step, microseconds}; it says nothing before.
std::optional<StepClock::Span> SpanAt(const std::vector<std::pair<int64_t, int64_t>>& ticks) {
  StepClock clock;
  std::optional<StepClock::Span> span;
  for (const auto& [step, at_us] : ticks) {
    EXPECT_FALSE(span.has_value());
    span = clock.Tick(step, at_us);
  }
  return span;
}

TEST(StepClockTest, ASpanIsTheMeanOfItsSteps) {
  const auto span = SpanAt({{0, 0}, {1, 60'000}, {2, 120'000}});
  ASSERT_TRUE(span.has_value());
  EXPECT_EQ(span->last, 2);
  EXPECT_EQ(span->steps, 2);
  EXPECT_DOUBLE_EQ(span->seconds, 0.06);
}

TEST(StepClockTest, StepsThatAreNoLongerToldAreCounted) {
  const auto span = SpanAt({{0, 0}, {64, 640'000}});
  ASSERT_TRUE(span.has_value());
  EXPECT_EQ(span->steps, 64);
  EXPECT_DOUBLE_EQ(span->seconds, 0.01);
}

TEST(StepClockTest, AnEarlierStepBeginsAnew) {
  const auto span = SpanAt({{100, 0}, {40, 5'000'000}, {41, 5'200'000}});
  ASSERT_TRUE(span.has_value());
  EXPECT_DOUBLE_EQ(span->seconds, 0.2);
}

}  // namespace
}  // namespace oneflow
