#include "actor/awake_clock.h"

#include "gtest/gtest.h"

namespace oneflow {
namespace {

AwakeClock::Point At(double seconds) { return AwakeClock::Point() + absl::ToChronoNanoseconds(absl::Seconds(seconds)); }

TEST(AwakeClockTest, CountsWhatLooksAreCloseEnoughTo) {
  AwakeClock clock(At(100));
  EXPECT_EQ(clock.Look(At(100.1)), absl::Seconds(0.1));
  EXPECT_EQ(clock.Look(At(101.1)), absl::Seconds(1.1)) << "a busy machine";
  EXPECT_EQ(clock.slept(), absl::ZeroDuration());
  EXPECT_EQ(clock.Look(At(131.1)), absl::Seconds(1.2)) << "of a pause as much as between two looks";
  EXPECT_EQ(clock.slept(), absl::Seconds(29.9));
  EXPECT_EQ(clock.Look(At(131.3)), absl::Seconds(1.4));
  EXPECT_EQ(clock.slept(), absl::ZeroDuration());
}

TEST(AwakeClockTest, AwaitingEndsWithTheConditionOrInTime) {
  absl::Mutex mu;
  bool yes = true, no = false;
  absl::MutexLock lock(&mu);
  EXPECT_TRUE(AwaitAwake(mu, absl::Condition(&yes), absl::ZeroDuration()));
  EXPECT_TRUE(AwaitAwake(mu, absl::Condition(&yes), absl::Hours(1)));
  EXPECT_FALSE(AwaitAwake(mu, absl::Condition(&no), absl::ZeroDuration()));
}

}  // namespace
}  // namespace oneflow
