#include "compiler/plan/liveness.h"

#include <functional>
#include <random>

#include "absl/strings/numbers.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// p makes a for q and b for r; r gives q what it needs to read a.
WaitGraph Diamond(int acts, int slots_of_a) {
  WaitGraph graph;
  graph.actors = {{"p", acts}, {"q", acts}, {"r", 1}};
  graph.registers = {
      {"a", {0, 1}, {{1, 1}}, slots_of_a, 0}, {"b", {0, acts}, {{2, 1}}, 1, 0}, {"c", {2, 1}, {{1, acts}}, 1, 0}};
  return graph;
}

TEST(LivenessTest, AChainOfActorsWithOneSlotEachIsLive) {
  WaitGraph graph;
  graph.actors = {{"read", 4}, {"compute", 4}, {"update", 1}};
  graph.registers = {{"x", {0, 1}, {{1, 1}}, 1, 0}, {"g", {1, 4}, {{2, 1}}, 1, 0}, {"w", {2, 1}, {{1, 4}}, 1, 1}};
  EXPECT_OK(CheckLive(graph));
}

TEST(LivenessTest, AReaderThatNeedsAllMicroBatchesFirstNeedsThatManySlots) {
  EXPECT_OK(CheckLive(Diamond(3, 3)));
  EXPECT_THAT(CheckLive(Diamond(3, 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'p' act 2 waits for a free slot of 'a' from 'q' act 0"),
                             HasSubstr("give register 'a' 3 slots (it has 2)"))));
}

TEST(LivenessTest, AVariableThatDoesNotStartFilledIsACircleOfData) {
  WaitGraph graph;
  graph.actors = {{"forward", 1}, {"update", 1}};
  graph.registers = {{"grad", {0, 1}, {{1, 1}}, 1, 0}, {"order", {1, 1}, {{0, 1}}, 1, 1}};
  EXPECT_OK(CheckLive(graph));
  graph.registers[1].initially_filled = 0;
  EXPECT_THAT(CheckLive(graph), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         AllOf(HasSubstr("'forward' waits for data of 'order' from 'update'"),
                                               HasSubstr("no number of slots breaks it"))));
}

TEST(LivenessTest, TheCycleItNamesIsAShortestOne) {
  // A ring of five actors and, inside it, a ring of two.
  WaitGraph graph;
  for (int i = 0; i < 5; ++i) graph.actors.push_back({absl::StrCat("a", i), 1});
  for (int i = 0; i < 5; ++i) graph.registers.push_back({absl::StrCat("r", i), {i, 1}, {{(i + 1) % 5, 1}}, 1, 0});
  graph.registers.push_back({"short", {1, 1}, {{0, 1}}, 1, 0});
  const std::optional<std::vector<Wait>> cycle = FindDeadCycle(graph);
  ASSERT_TRUE(cycle.has_value());
  EXPECT_THAT(*cycle, SizeIs(2));
}

TEST(LivenessTest, UnequalRatesAreNamed) {
  WaitGraph graph;
  graph.actors = {{"fast", 4}, {"slow", 1}};
  graph.registers = {{"x", {0, 1}, {{1, 1}}, 1, 0}};
  EXPECT_THAT(
      CheckLive(graph),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("register 'x': filled by 'fast' (4 acts per step, 1 per slot) but emptied by 'slow'")));
}

WaitGraph RandomGraph(std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  const int k = 1 + pick(4);
  WaitGraph graph;
  const int actors = 2 + pick(6);
  for (int i = 0; i < actors; ++i) graph.actors.push_back({absl::StrCat("a", i), pick(2) == 0 ? 1 : k});
  const int registers = 1 + pick(10);
  for (int i = 0; i < registers; ++i) {
    const auto port = [&](int actor, int fills) {
      return WaitGraph::Port{actor, graph.actors[actor].acts_per_step / fills};
    };
    int from = pick(actors), to = pick(actors);
    const int other = pick(actors);
    int filled = 0;
    if (from == to) continue;
    // Mostly forward, as plans are; sometimes back, mostly with tokens.
    if (from > to && pick(3) > 0) std::swap(from, to);
    const int slots = 1 + pick(3);
    if (from > to && pick(4) > 0) filled = 1 + pick(slots);
    const auto acts = [&](int a) { return graph.actors[a].acts_per_step; };
    const bool fast = acts(from) == k && acts(to) == k && acts(other) == k && pick(2) == 0;
    const int fills = fast ? k : 1;
    WaitGraph::Register reg{absl::StrCat("r", i), port(from, fills), {port(to, fills)}, slots, filled};
    if (other != from && other != to) reg.consumers.push_back(port(other, fills));
    graph.registers.push_back(reg);
  }
  return graph;
}

// Two ranks that make calls x and y together, each reading what it made for itself.
WaitGraph TwoCalls(const std::vector<int>& order_of_rank1) {
  WaitGraph graph;
  graph.actors = {{"make@0", 1}, {"x@0", 1}, {"y@0", 1}, {"make@1", 1}, {"x@1", 1}, {"y@1", 1}};
  for (int rank = 0; rank < 2; ++rank) {
    graph.registers.push_back({absl::StrCat("data", rank), {3 * rank}, {{3 * rank + 1}, {3 * rank + 2}}, 1, 0});
  }
  graph.together = {{1, 4}, {2, 5}};
  graph.orders = {{1, 2}, order_of_rank1};
  return graph;
}

TEST(LivenessTest, CallsInOppositeOrderOnTwoRanksAreADeadlock) {
  EXPECT_OK(CheckLive(TwoCalls({4, 5})));
  EXPECT_THAT(CheckLive(TwoCalls({5, 4})),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'x@1' waits for its turn from 'y@1', which acts together with 'y@0', which "
                                       "waits for its turn from 'x@0', which acts together with 'x@1'"),
                             HasSubstr("let all ranks launch their common calls in one order"))));
}

// Rank 1 makes y only from what x gave it; rank 0 would make y first.
TEST(LivenessTest, ACallThatNeedsWhatALaterOneGivesIsADeadlock) {
  WaitGraph graph = TwoCalls({5, 4});
  graph.orders[0] = {2, 1};
  EXPECT_OK(CheckLive(graph));
  graph.registers.push_back({"got", {4}, {{5}}, 1, 0});
  EXPECT_THAT(CheckLive(graph), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("data of 'got'")));
}

TEST(LivenessTest, GroupsAndOrdersThatMakeNoSenseAreNamed) {
  WaitGraph graph = TwoCalls({4});
  EXPECT_OK(CheckLive(graph)) << "'y@1' follows 'y@0' all the same";
  graph = TwoCalls({4, 5, 5});
  EXPECT_THAT(CheckLive(graph), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'y@1': ordered 2 times")));
  graph = TwoCalls({4, 5});
  graph.together[1].push_back(1);
  EXPECT_THAT(CheckLive(graph), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x@0': it is in two groups")));
  graph = TwoCalls({4, 5});
  graph.actors[5].acts_per_step = 2;
  graph.registers[1].consumers.pop_back();
  EXPECT_THAT(CheckLive(graph), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("which acts together with it")));
}

// Pairs of actors of one rate act together, and half of the actors are in one of two orders.
void AddCalls(std::mt19937& random, WaitGraph& graph) {
  const int n = static_cast<int>(graph.actors.size());
  for (int a = 0; a + 1 < n; a += 2) {
    const int b = a + 1;
    if (random() % 3 == 0 && graph.actors[a].acts_per_step == graph.actors[b].acts_per_step) {
      graph.together.push_back({a, b});
    }
  }
  graph.orders.resize(2);
  for (int act = 0; act < 4; ++act) {
    for (int a = 0; a < n; ++a) {
      if (a % 3 < 2 && act < graph.actors[a].acts_per_step) graph.orders[a % 3].push_back(a);
    }
  }
}

// Plays and proves 3,000 random graphs that `change` has changed. Expects both to agree, and enough of each kind.
void ExpectPlayingAgrees(int enough, const std::function<void(int seed, std::mt19937& random, WaitGraph&)>& change) {
  int live = 0, dead = 0;
  for (int seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    WaitGraph graph = RandomGraph(random);
    change(seed, random, graph);
    ASSERT_OK(CheckRates(graph));
    const bool played = SimulateStep(graph).ok();
    ASSERT_EQ(played, !FindDeadCycle(graph).has_value());
    ASSERT_EQ(played, CheckLive(graph).ok());
    (played ? live : dead) += 1;
  }
  EXPECT_GT(live, enough);
  EXPECT_GT(dead, enough);
}

TEST(LivenessTest, PlayingAgreesWithTheProofOnRandomGraphsWithCalls) {
  ExpectPlayingAgrees(200, [](int, std::mt19937& random, WaitGraph& graph) { AddCalls(random, graph); });
}

TEST(LivenessTest, PlayingAStepAgreesWithTheProofOnRandomGraphsAndTheirMutants) {
  ExpectPlayingAgrees(300, [](int seed, std::mt19937& random, WaitGraph& graph) {
    if (seed % 3 == 0 || graph.registers.empty()) return;  // otherwise take a credit or a token away
    WaitGraph::Register& reg = graph.registers[random() % graph.registers.size()];
    if (reg.initially_filled > 0) --reg.initially_filled;
    if (seed % 3 == 1 && reg.slots > 1 && reg.slots > reg.initially_filled) --reg.slots;
  });
}

TEST(LivenessTest, EveryEntryOfACycleWaitsForTheNextAndHoldsNoToken) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const WaitGraph graph = RandomGraph(random);
    const std::optional<std::vector<Wait>> cycle = FindDeadCycle(graph);
    if (!cycle.has_value()) continue;
    for (size_t i = 0; i < cycle->size(); ++i) {
      const Wait& wait = (*cycle)[i];
      const Wait& next = (*cycle)[(i + 1) % cycle->size()];
      if (wait.reg < 0) {
        ASSERT_EQ(wait.actor, next.actor);
        continue;
      }
      const WaitGraph::Register& reg = graph.registers[wait.reg];
      bool consumes = false;
      for (const WaitGraph::Port& port : reg.consumers) {
        consumes = consumes || port.actor == (wait.credit ? next.actor : wait.actor);
      }
      ASSERT_TRUE(consumes);
      ASSERT_EQ(reg.producer.actor, wait.credit ? wait.actor : next.actor);
    }
  }
}

// A line of actors, each of which waits for the one before, between two dead pairs: in the middle nothing is on a
// cycle, and everything is stuck. Searching from each of them would take 10^10 looks.
TEST(LivenessTest, ASearchForACycleIsLinearHoweverManyActsWaitForIt) {
  constexpr int kLine = 200'000;
  WaitGraph graph;
  for (int a = 0; a < kLine; ++a) graph.actors.push_back({absl::StrCat("a", a), 1});
  const auto feed = [&](int from, int to) {
    graph.registers.push_back({absl::StrCat("r", graph.registers.size()), {from, 1}, {{to, 1}}, 1, 0});
  };
  for (int a = 0; a + 1 < kLine; ++a) feed(a, a + 1);
  feed(1, 0);
  feed(kLine - 1, kLine - 2);
  ASSERT_OK(CheckRates(graph));
  const std::optional<std::vector<Wait>> cycle = FindDeadCycle(graph);
  ASSERT_TRUE(cycle.has_value());
  EXPECT_EQ(cycle->size(), 2);
}

// Two long circles of credits: each of their registers might be the cure, but none is alone.
TEST(LivenessTest, AnErrorAboutALongCycleIsMadeInLinearTime) {
  constexpr int kRing = 30'000;
  WaitGraph graph;
  for (int a = 0; a < 2 * kRing; ++a) {
    const int next = a % kRing + 1 < kRing ? a + 1 : a + 1 - kRing;
    graph.actors.push_back({absl::StrCat("a", a), 1});
    graph.registers.push_back({absl::StrCat("r", a), {a, 1}, {{next, 1}}, 1, 1});
  }
  ASSERT_OK(CheckRates(graph));
  EXPECT_THAT(CheckLive(graph).message(), HasSubstr("and there are further circles"));
}

// The cure that an error names must cure.
TEST(LivenessTest, TheSlotsThatAnErrorAsksForMakeThePlanLive) {
  int cured = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    WaitGraph graph = RandomGraph(random);
    const std::string message(CheckLive(graph).message());
    const size_t at = message.find("give register '");
    if (at == std::string::npos) continue;
    const std::string rest = message.substr(at + 15);
    const std::string name = rest.substr(0, rest.find('\''));
    int slots = 0;
    ASSERT_TRUE(absl::SimpleAtoi(rest.substr(name.size() + 2, rest.find(" slots") - name.size() - 2), &slots))
        << message;
    for (WaitGraph::Register& reg : graph.registers) {
      if (reg.name == name) reg.slots = slots;
    }
    EXPECT_OK(CheckLive(graph)) << message;
    ++cured;
  }
  EXPECT_GT(cured, 20);
}

}  // namespace
}  // namespace oneflow
