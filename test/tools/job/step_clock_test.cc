#include "tools/job/step_clock.h"

#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(StepClockTest, ASpanIsTheMeanOfItsSteps) {
  StepClock clock;
  EXPECT_FALSE(clock.Tick(0, 0).has_value());
  EXPECT_FALSE(clock.Tick(1, 60'000).has_value());
  const auto span = clock.Tick(2, 120'000);
  ASSERT_TRUE(span.has_value());
  EXPECT_EQ(span->last, 2);
  EXPECT_EQ(span->steps, 2);
  EXPECT_DOUBLE_EQ(span->seconds, 0.06);
}

TEST(StepClockTest, StepsThatAreNoLongerToldAreCounted) {
  StepClock clock;
  EXPECT_FALSE(clock.Tick(0, 0).has_value());
  const auto span = clock.Tick(64, 640'000);
  ASSERT_TRUE(span.has_value());
  EXPECT_EQ(span->steps, 64);
  EXPECT_DOUBLE_EQ(span->seconds, 0.01);
}

TEST(StepClockTest, AnEarlierStepBeginsAnew) {
  StepClock clock;
  EXPECT_FALSE(clock.Tick(100, 0).has_value());
  EXPECT_FALSE(clock.Tick(40, 5'000'000).has_value());
  const auto span = clock.Tick(41, 5'200'000);
  ASSERT_TRUE(span.has_value());
  EXPECT_DOUBLE_EQ(span->seconds, 0.2);
}

}  // namespace
}  // namespace oneflow
