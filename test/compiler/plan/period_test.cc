// The period of a step: circles whose means are known, and random graphs whose acts are played one by one.
#include "compiler/plan/period.h"

#include <algorithm>
#include <queue>
#include <random>

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// A line of actors, each with one register to the next.
WaitGraph Line(int actors, int slots, int acts = 1) {
  WaitGraph graph;
  for (int a = 0; a < actors; ++a) graph.actors.push_back({absl::StrCat("a", a), acts});
  for (int a = 0; a + 1 < actors; ++a) {
    graph.registers.push_back({absl::StrCat("r", a), {a, 1}, {{a + 1, 1}}, slots, 0});
  }
  return graph;
}

TEST(PeriodTest, WithOneSlotTwoActorsTakeTurnsAndWithTwoTheSlowerOneIsNeverIdle) {
  const ActTimes times{{4, 5}, {}};
  const Period one = BestPeriod(Line(2, 1), times);
  EXPECT_DOUBLE_EQ(one.seconds, 9);
  EXPECT_EQ(one.tokens, 1);
  EXPECT_THAT(one.cycle, SizeIs(2));
  const Period two = BestPeriod(Line(2, 2), times);
  EXPECT_DOUBLE_EQ(two.seconds, 5);
  ASSERT_THAT(two.cycle, SizeIs(1));
  EXPECT_EQ(two.cycle[0].actor, 1);
}

// Loading, preparing, computing: with one slot neighbours take turns, with two each works while its neighbours do, and
// more help nothing.
TEST(PeriodTest, ALoaderNeedsTwoSlotsAndMoreDoNotHelp) {
  const ActTimes times{{4, 3, 5}, {}};
  EXPECT_DOUBLE_EQ(BestPeriod(Line(3, 1), times).seconds, 3 + 5);
  EXPECT_DOUBLE_EQ(BestPeriod(Line(3, 2), times).seconds, 5);
  EXPECT_DOUBLE_EQ(BestPeriod(Line(3, 4), times).seconds, 5);
}

TEST(PeriodTest, WhatSharesAQueueTakesTheSumOfIt) {
  const Period period = BestPeriod(Line(3, 4), {{4, 3, 5}, {{0, 1}, {2}}});
  EXPECT_DOUBLE_EQ(period.seconds, 7);
  EXPECT_EQ(period.queue, 0);
  EXPECT_THAT(period.cycle, IsEmpty());
}

TEST(PeriodTest, AnOrderIsACircle) {
  WaitGraph graph = Line(3, 4);
  graph.orders = {{0, 2}};
  const Period period = BestPeriod(graph, {{4, 3, 5}, {{0, 2}}});
  // The step after begins with a0 when a2 is done, which waits for a1 in between.
  EXPECT_DOUBLE_EQ(period.seconds, 12);
  EXPECT_EQ(period.queue, -1) << "a circle says more than a queue";
}

TEST(PeriodTest, WhatActsTogetherTakesAsLongAsItsSlowest) {
  WaitGraph graph;
  graph.actors = {{"here", 2}, {"there", 2}};
  graph.together = {{0, 1}};
  EXPECT_DOUBLE_EQ(BestPeriod(graph, {{1, 3}, {}}).seconds, 6);
}

TEST(PeriodTest, WhatTakesNoTimeHasNoPeriod) {
  EXPECT_DOUBLE_EQ(BestPeriod(Line(3, 1), {{0, 0, 0}, {}}).seconds, 0);
  EXPECT_DOUBLE_EQ(BestPeriod(WaitGraph(), {}).seconds, 0);
}

TEST(PeriodTest, WhatOneSlotMoreWouldGainIsSaid) {
  WaitGraph graph;
  graph.actors = {{"load", 1}, {"compute", 1}, {"store", 1}};
  graph.registers = {{"batch", {0, 1}, {{1, 1}}, 1, 0}, {"loss", {1, 1}, {{2, 1}}, 3, 0}};
  const ActTimes times{{0.004, 0.005, 0.001}, {}};
  const Period period = BestPeriod(graph, times);
  const std::vector<WhatIf> what_if = WhatIfOneSlotMore(graph, times, period);
  ASSERT_THAT(what_if, SizeIs(1));
  EXPECT_EQ(WhatIfText(graph, period, what_if[0]), "slots of 'batch' from 1 to 2: +80% throughput");
  EXPECT_THAT(PeriodText(graph, times, period),
              HasSubstr("9 ms a step\n  'load', 4 ms, waits for a free slot of 'batch', which has 1\n"));
}

TEST(PeriodTest, WhatRepeatsWithMicroBatchesIsToldOnce) {
  WaitGraph graph = Line(2, 1, /*acts=*/4);
  const ActTimes times{{0.001, 0.002}, {}};
  const Period period = BestPeriod(graph, times);
  EXPECT_DOUBLE_EQ(period.seconds, 0.012);
  EXPECT_THAT(period.cycle, SizeIs(8));
  const std::string text = PeriodText(graph, times, period);
  EXPECT_THAT(text, HasSubstr("12 ms a step\n  4 times\n    '"));
  EXPECT_THAT(text, HasSubstr("    'a0', 1 ms, waits for a free slot of 'r0', which has 1\n"));
}

// Plays acts as actors do, with counters and a clock, over as many steps as wanted: it knows of no vertices and edges.
class TimedPlay {
 public:
  TimedPlay(const WaitGraph& graph, const ActTimes& times)
      : graph_(graph),
        times_(times),
        acts_(graph.actors.size(), 0),
        runs_(acts_.size(), false),
        turn_(graph.orders.size(), 0) {
    for (const WaitGraph::Register& reg : graph.registers) {
      filled_.push_back(reg.initially_filled);
      freed_.emplace_back(reg.consumers.size(), 0);
    }
  }

  // When each actor had done its acts of `steps` steps, since the beginning.
  std::vector<double> Play(int64_t steps) {
    std::vector<double> done(acts_.size(), now_);
    StartAll(steps);
    while (!ends_.empty()) {
      now_ = ends_.top().first;
      while (!ends_.empty() && ends_.top().first == now_) {
        const int actor = ends_.top().second;
        ends_.pop();
        End(actor);
        done[actor] = now_;
      }
      StartAll(steps);
    }
    return done;
  }

 private:
  void StartAll(int64_t steps) {
    for (int a = 0; a < static_cast<int>(acts_.size()); ++a) {
      if (runs_[a] || acts_[a] == steps * graph_.actors[a].acts_per_step || !CanStart(a)) continue;
      runs_[a] = true;
      ends_.push({now_ + times_.seconds[a], a});
    }
  }

  bool CanStart(int actor) const {
    for (size_t r = 0; r < graph_.registers.size(); ++r) {
      const WaitGraph::Register& reg = graph_.registers[r];
      for (size_t c = 0; c < reg.consumers.size(); ++c) {
        if (reg.consumers[c].actor == actor && filled_[r] == freed_[r][c]) return false;
        if (reg.producer.actor == actor && filled_[r] - freed_[r][c] == reg.slots) return false;
      }
    }
    for (size_t o = 0; o < graph_.orders.size(); ++o) {
      const std::vector<int>& order = graph_.orders[o];
      const bool in_it = std::find(order.begin(), order.end(), actor) != order.end();
      if (in_it && order[turn_[o] % order.size()] != actor) return false;
    }
    return true;
  }

  void End(int actor) {
    runs_[actor] = false;
    const int64_t done = ++acts_[actor];
    for (size_t r = 0; r < graph_.registers.size(); ++r) {
      const WaitGraph::Register& reg = graph_.registers[r];
      for (size_t c = 0; c < reg.consumers.size(); ++c) {
        if (reg.consumers[c].actor == actor && done % reg.consumers[c].acts_per_slot == 0) ++freed_[r][c];
      }
      if (reg.producer.actor == actor && done % reg.producer.acts_per_slot == 0) ++filled_[r];
    }
    for (size_t o = 0; o < graph_.orders.size(); ++o) {
      const std::vector<int>& order = graph_.orders[o];
      if (std::find(order.begin(), order.end(), actor) != order.end()) ++turn_[o];
    }
  }

  const WaitGraph& graph_;
  const ActTimes& times_;
  std::vector<int64_t> acts_;
  std::vector<bool> runs_;
  std::vector<size_t> turn_;
  std::vector<int64_t> filled_;
  std::vector<std::vector<int64_t>> freed_;
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> ends_;
  double now_ = 0;
};

struct Timed {
  WaitGraph graph;
  ActTimes times;
};

// Registers of both rates, tokens, and sometimes an order of some actors.
Timed RandomTimed(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  const int k = 1 + pick(3);
  Timed timed;
  for (int a = 2 + pick(4); a > 0; --a) {
    timed.graph.actors.push_back({absl::StrCat("a", a), pick(3) == 0 ? 1 : k});
    timed.times.seconds.push_back(pick(10));
  }
  const int actors = static_cast<int>(timed.graph.actors.size());
  for (int r = 1 + pick(6); r > 0; --r) {
    const int fills = pick(2) == 0 ? 1 : k;
    const auto port = [&] {
      const int actor = pick(actors);
      const int acts = timed.graph.actors[actor].acts_per_step;
      return WaitGraph::Port{actor, acts % fills == 0 ? acts / fills : 0};
    };
    const WaitGraph::Port from = port(), to = port();
    if (from.actor == to.actor || from.acts_per_slot == 0 || to.acts_per_slot == 0) continue;
    const int slots = 1 + pick(3);
    timed.graph.registers.push_back({absl::StrCat("r", r), from, {to}, slots, pick(3) == 0 ? 1 + pick(slots) : 0});
  }
  if (pick(3) == 0) {
    std::vector<int> order;
    for (int a = 0; a < actors; a += 2) order.insert(order.end(), timed.graph.actors[a].acts_per_step, a);
    std::shuffle(order.begin(), order.end(), random);
    timed.graph.orders = {order};
  }
  return timed;
}

TEST(PeriodTest, ItIsThatOfActsPlayedOneByOne) {
  // A graph repeats itself after as many steps as the tokens of its circles have as a common multiple.
  constexpr int kSteps = 840, kBefore = 400;
  int played = 0, by_circles = 0;
  for (uint32_t seed = 0; played < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const Timed timed = RandomTimed(seed);
    if (!CheckLive(timed.graph).ok()) continue;
    const Period period = BestPeriod(timed.graph, timed.times);
    TimedPlay play(timed.graph, timed.times);
    const std::vector<double> before = play.Play(kBefore);
    TimedPlay again(timed.graph, timed.times);
    const std::vector<double> after = again.Play(kBefore + kSteps);
    double slowest = 0;
    for (size_t a = 0; a < after.size(); ++a) slowest = std::max(slowest, (after[a] - before[a]) / kSteps);
    ASSERT_NEAR(period.seconds, slowest, 1e-9);
    ++played;
    by_circles += period.cycle.size() > 2;
  }
  EXPECT_GT(by_circles, 30);
}

// What is said of a circle adds up: its waits follow one another, and its acts take the period times its tokens.
TEST(PeriodTest, TheCircleItNamesHasThatMean) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const Timed timed = RandomTimed(seed);
    if (!CheckLive(timed.graph).ok()) continue;
    const Period period = BestPeriod(timed.graph, timed.times);
    if (period.seconds == 0) continue;
    double sum = 0;
    for (size_t i = 0; i < period.cycle.size(); ++i) {
      const Wait& next = period.cycle[(i + 1) % period.cycle.size()];
      EXPECT_EQ(period.cycle[i].on, next.actor);
      EXPECT_EQ(period.cycle[i].on_act, next.act);
      sum += timed.times.seconds[period.cycle[i].actor];
    }
    EXPECT_NEAR(sum, period.seconds * period.tokens, 1e-9);
  }
}

// Law: slots never make steps longer.
TEST(PeriodTest, ASlotMoreNeverHarms) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const Timed timed = RandomTimed(seed);
    if (!CheckLive(timed.graph).ok()) continue;
    const Period period = BestPeriod(timed.graph, timed.times);
    for (const WhatIf& what_if : WhatIfOneSlotMore(timed.graph, timed.times, period)) {
      EXPECT_LE(what_if.seconds, period.seconds * (1 + 1e-12));
    }
  }
}

}  // namespace
}  // namespace oneflow
