#include "actor/engine/stall_watch.h"

#include <vector>

#include "test/support/names.h"

namespace oneflow {
namespace {

struct Look {
  double seconds;
  int64_t acts;
};

// What a watch with a limit of 2 s says at each look.
std::vector<bool> Stalls(std::vector<Look> looks) {
  StallWatch watch(absl::Seconds(2));
  std::vector<bool> stalls;
  for (const Look& look : looks) stalls.push_back(watch.IsStalled(absl::Seconds(look.seconds), look.acts));
  return stalls;
}

TEST(StallWatchTest, ARunStallsWhenNoActHasEndedForTheLimit) {
  EXPECT_THAT(Stalls({{0, 5}, {1.9, 5}, {2, 5}}), ElementsAre(false, false, true));
}

TEST(StallWatchTest, EveryActThatEndsBeginsTheTimeAgain) {
  EXPECT_THAT(Stalls({{0, 5}, {1.9, 6}, {3.8, 6}, {3.9, 6}}), ElementsAre(false, false, false, true));
}

TEST(StallWatchTest, AStallIsReportedOnceUntilThereIsProgress) {
  EXPECT_THAT(Stalls({{0, 5}, {2, 5}, {60, 5}, {61, 6}, {63, 6}}), ElementsAre(false, true, false, false, true));
}

}  // namespace
}  // namespace oneflow
