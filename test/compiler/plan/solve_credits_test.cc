// The fewest slots that reach the best period: known lines, and random graphs against all assignments.
#include "compiler/plan/solve_credits.h"

#include <random>

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

WaitGraph LoaderLine(int slots) {
  WaitGraph graph;
  graph.actors = {{"load", 1}, {"prepare", 1}, {"compute", 1}};
  graph.registers = {{"raw", {0, 1}, {{1, 1}}, slots, 0}, {"batch", {1, 1}, {{2, 1}}, slots, 0}};
  return graph;
}

TEST(SolveCreditsTest, ALoaderGetsTheSlotsThatKeepComputeBusyAndGivesBackTheRest) {
  const ActTimes times{{4, 3, 5}, {}};
  for (const int slots : {1, 2, 7}) {
    ASSERT_OK_AND_ASSIGN(const SolvedCredits solved, SolveCredits(LoaderLine(slots), times, {{100, 10}, {}}));
    EXPECT_DOUBLE_EQ(solved.after.seconds, 5);
    EXPECT_THAT(solved.slots, ElementsAre(2, 2));
  }
  EXPECT_THAT(SolveCredits(LoaderLine(1), times, {{100, 10}, {}})->raised, ElementsAre(1, 0));
}

// One slot: 1000 + 1. Two: 1000, a thousandth less.
TEST(SolveCreditsTest, ASlotIsWorthTheLeastGain) {
  WaitGraph graph;
  graph.actors = {{"load", 1}, {"compute", 1}};
  graph.registers = {{"batch", {0, 1}, {{1, 1}}, 1, 0}};
  const ActTimes times{{1, 1000}, {}};
  ASSERT_OK_AND_ASSIGN(const SolvedCredits solved, SolveCredits(graph, times, {{100}, {}}));
  EXPECT_THAT(solved.slots, ElementsAre(2));
  EXPECT_DOUBLE_EQ(solved.after.seconds, 1000);
  graph.registers[0].slots = 3;
  EXPECT_THAT(SolveCredits(graph, times, {{100}, {}})->slots, ElementsAre(2)) << "nor is one given back for it";
  EXPECT_THAT(SolveCredits(graph, times, {{100}, {}}, {.seconds = 1000.5})->slots, ElementsAre(2));
  EXPECT_THAT(SolveCredits(graph, times, {{100}, {}}, {.seconds = 1001})->slots, ElementsAre(1));
  ASSERT_OK_AND_ASSIGN(const SolvedCredits capped, SolveCredits(graph, times, {{100}, {}}, {.most_bytes = 200}));
  EXPECT_THAT(capped.slots, ElementsAre(2));
}

// Two ways from a to c: over b, and over three slow ones, until whose end what b gets waits. 15 in four steps at most,
// so the registers before and behind b need four slots together, and it does not matter which of them has these.
TEST(SolveCreditsTest, OfRegistersThatHelpAlikeTheCheaperHasTheSlots) {
  for (const int slots : {1, 4}) {  // that are to be given, or given back
    WaitGraph graph;
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) graph.actors.push_back({name, 1});
    const std::vector<std::pair<int, int>> ways = {{0, 1}, {1, 2}, {0, 3}, {3, 4}, {4, 5}, {5, 2}};
    for (const auto& [from, to] : ways) {
      graph.registers.push_back(
          {absl::StrCat(graph.actors[from].name, graph.actors[to].name), {from, 1}, {{to, 1}}, slots, 0});
    }
    const ActTimes times{{1, 1, 1, 4, 4, 4}, {}};
    ASSERT_OK_AND_ASSIGN(const SolvedCredits first, SolveCredits(graph, times, {{10, 100, 1, 1, 1, 1}, {}}));
    EXPECT_THAT(first.slots, ElementsAre(3, 1, 2, 2, 2, 2));
    ASSERT_OK_AND_ASSIGN(const SolvedCredits second, SolveCredits(graph, times, {{100, 10, 1, 1, 1, 1}, {}}));
    EXPECT_THAT(second.slots, ElementsAre(1, 3, 2, 2, 2, 2));
    EXPECT_DOUBLE_EQ(second.after.seconds, 4);
  }
}

TEST(SolveCreditsTest, SlotsThatMustStayAreLeftAlone) {
  ASSERT_OK_AND_ASSIGN(const SolvedCredits solved, SolveCredits(LoaderLine(1), {{4, 3, 5}, {}}, {{-1, -1}, {}}));
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
  ASSERT_OK_AND_ASSIGN(const SolvedCredits solved,
                       SolveCredits(graph, {{1, 2, 3}, {{0, 1}, {2}}}, {{1000, 10, 10}, {}}));
  EXPECT_DOUBLE_EQ(solved.after.seconds, 12);
  EXPECT_EQ(solved.slots[0], 2);
}

// With one slot each 4 + 3 and 3 + 5, with two more in front 8, with two of both 5.
TEST(SolveCreditsTest, AStatedPeriodTakesNoMoreSlotsThanItNeeds) {
  const ActTimes times{{4, 3, 5}, {}};
  ASSERT_OK_AND_ASSIGN(const SolvedCredits slow, SolveCredits(LoaderLine(3), times, {{100, 10}, {}}, {.seconds = 9}));
  EXPECT_THAT(slow.slots, ElementsAre(1, 1));
  EXPECT_DOUBLE_EQ(slow.after.seconds, 8);
  ASSERT_OK_AND_ASSIGN(const SolvedCredits fast, SolveCredits(LoaderLine(3), times, {{100, 10}, {}}, {.seconds = 7.5}));
  EXPECT_THAT(fast.slots, ElementsAre(1, 2));
  EXPECT_DOUBLE_EQ(fast.after.seconds, 7);
  EXPECT_THAT(SolveCredits(LoaderLine(3), times, {{100, 10}, {}}, {.seconds = 4}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "no slots make a step as short as 4000 ms: with slots without end it is 5000 ms"));
}

TEST(SolveCreditsTest, UnderACapSlotsGoWhereTheyHelpMost) {
  const ActTimes times{{4, 3, 5}, {}};
  const auto solve = [&](int64_t cap, std::vector<std::vector<int>> devices = {}) {
    return SolveCredits(LoaderLine(3), times, {{100, 10}, std::move(devices)}, {.most_bytes = cap});
  };
  ASSERT_OK_AND_ASSIGN(const SolvedCredits little, solve(125));
  EXPECT_THAT(little.slots, ElementsAre(1, 2));
  EXPECT_DOUBLE_EQ(little.after.seconds, 7);
  ASSERT_OK_AND_ASSIGN(const SolvedCredits much, solve(220));
  EXPECT_THAT(much.slots, ElementsAre(2, 2));
  EXPECT_DOUBLE_EQ(much.after.seconds, 5);
  // Each on a device of its own.
  ASSERT_OK_AND_ASSIGN(const SolvedCredits apart, solve(200, {{0}, {1}}));
  EXPECT_THAT(apart.slots, ElementsAre(2, 2));
  EXPECT_THAT(solve(109), StatusIs(absl::StatusCode::kResourceExhausted,
                                   "the fewest slots that do not stop the plan take 110 bytes on a device, the cap is "
                                   "109"));
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
    made.times.seconds.push_back((1 + pick(9)) * (1 + 0.003 * pick(4)));  // near one another too
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
    ASSERT_OK_AND_ASSIGN(const SolvedCredits solved, SolveCredits(made.graph, made.times, {made.bytes, {}}));
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

// Law: what is found under a cap keeps to it, and is often the best there is.
TEST(SolveCreditsTest, CapsOfRandomGraphsAreKeptTo) {
  int best_of_all = 0, all = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const SmallCase made = RandomSmallCase(seed);
    int64_t least = 0;
    for (const int64_t bytes : made.bytes) least += bytes;
    const int64_t cap = 2 * least;
    const absl::StatusOr<SolvedCredits> solved =
        SolveCredits(made.graph, made.times, {made.bytes, {}}, {.most_bytes = cap});
    if (solved.status().code() == absl::StatusCode::kResourceExhausted) continue;
    ASSERT_OK(solved);
    WaitGraph changed = made.graph;
    int64_t bytes = 0;
    for (int r = 0; r < 4; ++r) bytes += made.bytes[r] * (changed.registers[r].slots = solved->slots[r]);
    EXPECT_LE(bytes, cap);
    ASSERT_OK(CheckLive(changed));
    double best = BestPeriod(changed, made.times).seconds;
    EXPECT_DOUBLE_EQ(best, solved->after.seconds);
    for (int code = 0; code < 4 * 4 * 4 * 4; ++code) {
      int64_t needs = 0;
      for (int r = 0, rest = code; r < 4; ++r, rest /= 4) {
        needs += made.bytes[r] * (changed.registers[r].slots = 1 + rest % 4);
      }
      if (needs <= cap && CheckLive(changed).ok()) best = std::min(best, BestPeriod(changed, made.times).seconds);
    }
    best_of_all += solved->after.seconds <= best * (1 + 1e-9);
    ++all;
  }
  EXPECT_GT(all, 40);
  EXPECT_GT(best_of_all, all * 8 / 10);
}

}  // namespace
}  // namespace oneflow
