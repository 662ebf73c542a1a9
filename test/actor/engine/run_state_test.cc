#include "actor/engine/run_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr std::chrono::milliseconds kNow(0);

TEST(RunStateTest, ARunIsOverWhenAllItsThreadsHaveEnded) {
  RunState state;
  ASSERT_OK(state.Begin(2));
  EXPECT_FALSE(state.WaitFor(kNow));
  state.ThreadEnded();
  EXPECT_FALSE(state.WaitFor(kNow));
  state.ThreadEnded();
  EXPECT_TRUE(state.WaitFor(kNow));
  EXPECT_OK(state.failure());
  ASSERT_OK(state.Begin(1));
  EXPECT_FALSE(state.WaitFor(kNow));
}

TEST(RunStateTest, ARunWithoutThreadsIsOver) {
  RunState state;
  ASSERT_OK(state.Begin(0));
  EXPECT_TRUE(state.WaitFor(kNow));
}

TEST(RunStateTest, TheFirstErrorEndsARunAndStays) {
  RunState state;
  ASSERT_OK(state.Begin(2));
  EXPECT_TRUE(state.Fail(absl::InternalError("first")));
  EXPECT_TRUE(state.WaitFor(kNow));
  EXPECT_FALSE(state.Fail(absl::AbortedError("second")));
  EXPECT_THAT(state.failure(), StatusIs(absl::StatusCode::kInternal, "first"));
  EXPECT_THAT(state.Begin(2), StatusIs(absl::StatusCode::kInternal, "first"));
}

TEST(RunStateTest, APeerThatIsLostDuringARunIsNeeded) {
  RunState state;
  ASSERT_OK(state.Begin(1));
  EXPECT_TRUE(state.LosePeer(absl::UnavailableError("gone")));
}

// It may have done its part of the last run. Only a next run misses it.
TEST(RunStateTest, APeerThatIsLostBetweenRunsIsMissedByTheNextOne) {
  RunState state;
  ASSERT_OK(state.Begin(1));
  state.ThreadEnded();
  EXPECT_FALSE(state.LosePeer(absl::UnavailableError("gone")));
  EXPECT_OK(state.failure());
  EXPECT_THAT(state.Begin(1), StatusIs(absl::StatusCode::kUnavailable, "gone"));
}

}  // namespace
}  // namespace oneflow
