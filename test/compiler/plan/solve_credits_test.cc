// The fewest slots that reach the best period: known lines, and random graphs against all assignments.
#include "compiler/plan/solve_credits.h"

#include <random>

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

WaitGraph LoaderLine(int slots) {
  WaitGraph graph;
  graph.actors = {{"load", 1}, {"prepare", 1}, {"compute", 1}};
  graph.registers = {{"raw", {0, 1}, {{1, 1}}, slots, 0}, {"batch", {1, 1}, {{2, 1}}, slots, 0}};
  return graph;
}

TEST(SolveCreditsTest, ALoaderGetsTheSlotsThatKeepComputeBusyAndGivesBackTheRest) {
  const ActTimes times{{4, 3, 5}, {}};
  for (const int slots : {1, 2, 7}) {
    const SolvedCredits solved = SolveCredits(LoaderLine(slots), times, {100, 10});
    EXPECT_DOUBLE_EQ(solved.after.seconds, 5);
    EXPECT_THAT(solved.slots, ElementsAre(2, 2));
  }
  EXPECT_THAT(SolveCredits(LoaderLine(1), times, {100, 10}).raised, ElementsAre(1, 0));
}

TEST(SolveCreditsTest, SlotsThatMustStayAreLeftAlone) {
  const SolvedCredits solved = SolveCredits(LoaderLine(1), {{4, 3, 5}, {}}, {-1, -1});
  EXPECT_THAT(solved.slots, ElementsAre(1, 1));
  EXPECT_THAT(solved.raised, IsEmpty());
  EXPECT_DOUBLE_EQ(solved.after.seconds, solved.before.seconds);
}

// Two stages and four micro-batches: stage 0 needs two activations in flight, as 1F1B has them, whatever it was given.
TEST(SolveCreditsTest, APipelineOfTwoStagesKeepsTwoMicroBatchesInFlight) {
  WaitGraph graph;
  graph.actors = {{"F0", 4}, {"B0", 4}, {"FB1", 4}};
  graph.registers = {
      {"kept", {0, 1}, {{1, 1}}, 4, 0}, {"sent", {0, 1}, {{2, 1}}, 4, 0}, {"back", {2, 1}, {{1, 1}}, 4, 0}};
  // Stage 0's queue does one thing at a time.
  const SolvedCredits solved = SolveCredits(graph, {{1, 2, 3}, {{0, 1}, {2}}}, {1000, 10, 10});
  EXPECT_DOUBLE_EQ(solved.after.seconds, 12);
  EXPECT_EQ(solved.slots[0], 2);
}

struct SmallCase {
  WaitGraph graph;
  ActTimes times;
  std::vector<int64_t> bytes;
};

SmallCase RandomSmallCase(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  SmallCase made;
  const int k = 1 + pick(2);
  for (int a = 0; a < 4; ++a) {
    made.graph.actors.push_back({absl::StrCat("a", a), k});
    made.times.seconds.push_back(1 + pick(9));
  }
  for (int r = 0; r < 4; ++r) {
    const int from = pick(3), to = from + 1 + pick(3 - from);
    made.graph.registers.push_back({absl::StrCat("r", r), {from, 1}, {{to, 1}}, 1 + pick(3), 0});
    made.bytes.push_back(1 + pick(20));
  }
  return made;
}

// Law: it reaches what any slots reach, no register can have one less, and it rarely takes more bytes than the least.
TEST(SolveCreditsTest, NoRegisterOfRandomGraphsHasASlotTooMany) {
  int least = 0, all = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const SmallCase made = RandomSmallCase(seed);
    ASSERT_OK(CheckLive(made.graph));
    const SolvedCredits solved = SolveCredits(made.graph, made.times, made.bytes);
    WaitGraph changed = made.graph;
    const auto period = [&] { return BestPeriod(changed, made.times).seconds; };
    for (WaitGraph::Register& reg : changed.registers) reg.slots = 12;
    ASSERT_NEAR(solved.after.seconds, period(), 1e-6);
    int64_t bytes = 0;
    for (int r = 0; r < 4; ++r) bytes += made.bytes[r] * (changed.registers[r].slots = solved.slots[r]);
    EXPECT_OK(CheckLive(changed));
    for (WaitGraph::Register& reg : changed.registers) {
      const bool can_be = --reg.slots > 0 && CheckLive(changed).ok();
      EXPECT_TRUE(!can_be || period() > solved.after.seconds * (1 + 1e-9)) << reg.name;
      ++reg.slots;
    }
    int64_t best = bytes;
    for (int code = 0; code < 4 * 4 * 4 * 4; ++code) {
      int64_t needs = 0;
      for (int r = 0, rest = code; r < 4; ++r, rest /= 4) {
        needs += made.bytes[r] * (changed.registers[r].slots = 1 + rest % 4);
      }
      if (needs < best && CheckLive(changed).ok() && period() <= solved.after.seconds * (1 + 1e-9)) best = needs;
    }
    least += bytes == best;
    ++all;
  }
  EXPECT_GT(least, all * 8 / 10);
}

}  // namespace
}  // namespace oneflow
