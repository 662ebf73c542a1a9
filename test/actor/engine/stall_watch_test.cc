#include "actor/engine/stall_watch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(StallWatchTest, ARunStallsWhenNoActHasEndedForTheLimit) {
  StallWatch watch(absl::Seconds(2));
  EXPECT_FALSE(watch.IsStalled(absl::Seconds(0), 5));
  EXPECT_FALSE(watch.IsStalled(absl::Seconds(1.9), 5));
  EXPECT_TRUE(watch.IsStalled(absl::Seconds(2), 5));
}

TEST(StallWatchTest, EveryActThatEndsBeginsTheTimeAgain) {
  StallWatch watch(absl::Seconds(2));
  EXPECT_FALSE(watch.IsStalled(absl::Seconds(0), 5));
  EXPECT_FALSE(watch.IsStalled(absl::Seconds(1.9), 6));
  EXPECT_FALSE(watch.IsStalled(absl::Seconds(3.8), 6));
  EXPECT_TRUE(watch.IsStalled(absl::Seconds(3.9), 6));
}

TEST(StallWatchTest, AStallIsReportedOnceUntilThereIsProgress) {
  StallWatch watch(absl::Seconds(2));
  EXPECT_FALSE(watch.IsStalled(absl::Seconds(0), 5));
  EXPECT_TRUE(watch.IsStalled(absl::Seconds(2), 5));
  EXPECT_FALSE(watch.IsStalled(absl::Seconds(60), 5));
  EXPECT_FALSE(watch.IsStalled(absl::Seconds(61), 6));
  EXPECT_TRUE(watch.IsStalled(absl::Seconds(63), 6));
}

}  // namespace
}  // namespace oneflow
