#include "compiler/select/search.h"

#include "compiler/select/local_search.h"
#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"

namespace oneflow::testing {
namespace {

// Nothing is eliminated but what has no choice; of the beam, `width` states.
SearchLimits OnlyBeam(int width) {
  return {.table_entries = 1, .ascent_steps = 0, .beam_states = 1, .min_beam_width = width};
}

TEST(SearchTest, DoesNotBoxWithoutNeed) {
  const SearchResult result = Search(Chain(10, 1));
  EXPECT_EQ(result.cost.seconds, 0);
}

TEST(SearchTest, MovesAWholeRegionAcrossABoxing) {
  // Both ends are fixed to layout 0; layout 1 looks better at the first node, but not by as much as the way back costs.
  SearchProblem problem = Chain(12, 1);
  for (int i = 1; i < 11; ++i) problem.nodes[i].options[0].seconds = 0.05;
  for (int end : {0, 11}) {
    problem.nodes[end].options.resize(1);
    problem.units[end].options = {{0}};
  }
  const SearchResult result = Search(problem);
  EXPECT_DOUBLE_EQ(result.cost.seconds, 0.5);
  // Worth it now: 10 * 0.3 against two boxings.
  for (int i = 1; i < 11; ++i) problem.nodes[i].options[0].seconds = 0.3;
  EXPECT_DOUBLE_EQ(Search(problem).cost.seconds, 2);
}

TEST(SearchTest, PaysOnceForReadersThatWantTheSame) {
  SearchProblem problem = Chain(2, 1);
  problem.nodes[0].options.resize(1);  // 0
  problem.units[0].options = {{0}};
  problem.nodes[1].options = {{{1}, {1}, 0}};  // reads 1
  problem.units[1].options = {{0}};
  problem.nodes.push_back(problem.nodes[1]);
  problem.nodes.back().outputs = {2};
  problem.values.push_back({2, 0, {}});
  problem.values[0].readers.push_back({2, 0});
  problem.units.push_back({{2}, {{0}}});
  EXPECT_DOUBLE_EQ(Search(problem).cost.seconds, 1);
}

TEST(SearchTest, LetsNodesThatMustAgreeMoveTogether) {
  SearchProblem problem = Chain(3, 1);
  problem.units = {{{0, 2}, {{0, 0}, {1, 1}}}, {{1}, {{0}, {1}}}};
  problem.nodes[0].options[0].seconds = 5;
  const SearchResult result = Search(problem);
  EXPECT_EQ(result.choice, (std::vector<int>{1, 1, 1}));
}

TEST(SearchTest, ExactResultsAreTheMinimum) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const SearchResult result = Search(problem);
    EXPECT_TRUE(result.exact);
    EXPECT_NEAR(result.cost.seconds, TotalOf(problem, result.choice), 1e-9);
    EXPECT_NEAR(result.cost.seconds, BestByTryingAll(problem), 1e-9);
    EXPECT_EQ(result.lower_bound, result.cost);
    EXPECT_EQ(result.choice, Search(problem).choice);
  }
}

// A random problem in which boxings of about every other value are avoided. To do without them may be so slow that no
// usual price would be high enough.
SearchProblem ProblemWithWeights(unsigned seed) {
  SearchProblem problem = RandomProblem(seed);
  std::mt19937 random(seed);
  std::vector<bool> avoided;
  for (size_t id = 0; id < problem.values.size(); ++id) avoided.push_back(random() % 2 == 0);
  for (SearchProblem::Node& node : problem.nodes) {
    for (SearchProblem::Option& option : node.options) option.seconds *= random() % 4 == 0 ? 1e4 : 1;
  }
  problem.boxing = [boxing = problem.boxing, avoided](int value, int from, int to) -> Cost {
    const Cost cost = boxing(value, from, to);
    return {from != to && avoided[value] ? 2.0 : 0.0, cost.seconds};
  };
  return problem;
}

TEST(SearchTest, AvoidsFirstAndIsQuickSecond) {
  int unavoidable = 0, slow = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = ProblemWithWeights(seed);
    const Cost least = LeastCost(problem);
    const SearchResult result = Search(problem);
    EXPECT_TRUE(result.exact);
    EXPECT_EQ(result.cost.avoided, least.avoided);
    EXPECT_NEAR(result.cost.seconds, least.seconds, 1e-8 * (1 + least.seconds));
    EXPECT_EQ(result.lower_bound, result.cost);
    unavoidable += least.avoided > 0;
    slow += least.seconds > 2 * BestByTryingAll(problem);
  }
  EXPECT_GT(unavoidable, 30);
  EXPECT_GT(slow, 15) << "time would rather have had another choice";
}

TEST(SearchTest, BoundsOfWhatIsAvoidedHold) {
  int inexact = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = ProblemWithWeights(seed);
    const Cost least = LeastCost(problem);
    const SearchResult result = Search(problem, OnlyBeam(1));
    EXPECT_LE(result.lower_bound.avoided, least.avoided);
    if (result.lower_bound.avoided == least.avoided) {
      EXPECT_LE(result.lower_bound.seconds, least.seconds + 1e-8 * (1 + least.seconds));
    }
    if (result.exact) {
      EXPECT_EQ(result.cost.avoided, least.avoided);
      EXPECT_NEAR(result.cost.seconds, least.seconds, 1e-8 * (1 + least.seconds));
    }
    inexact += result.exact ? 0 : 1;
  }
  EXPECT_GT(inexact, 0);
}

TEST(SearchTest, WhatDoesNotExistIsWorseThanAllWeights) {
  SearchProblem problem = Chain(3, 1);  // the ends are 0 and 1; the change is impossible before, a weight's behind
  for (int end : {0, 2}) {
    problem.nodes[end].options = {problem.nodes[end].options[end / 2]};
    problem.units[end].options = {{0}};
  }
  problem.boxing = [](int value, int from, int to) -> Cost {
    if (from == to) return {};
    return value == 0 ? Cost::Impossible() : Cost{1000, 1000};
  };
  const SearchResult result = Search(problem);
  EXPECT_EQ(result.choice, (std::vector<int>{0, 0, 0}));
  EXPECT_TRUE(result.cost.possible());
}

TEST(SearchTest, TheBeamKeepsItsPromises) {
  int exact = 0, inexact = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const double best = BestByTryingAll(problem);
    const CostGraph graph(problem);
    LocalSearch local(graph);
    local.Sweep();
    local.MoveRegions();
    for (const int width : {1, 2, 1000}) {
      const SearchResult result = Search(problem, OnlyBeam(width));
      EXPECT_NEAR(result.cost.seconds, TotalOf(problem, result.choice), 1e-9);
      EXPECT_LE(result.cost.seconds, local.Seconds() + 1e-9) << "never worse than moves alone";
      EXPECT_LE(result.lower_bound.seconds, best + 1e-9);
      if (result.exact || width == 1000) {
        EXPECT_NEAR(result.cost.seconds, best, 1e-9);
      }
      EXPECT_TRUE(width < 1000 || result.exact);
      ++(result.exact ? exact : inexact);
    }
  }
  EXPECT_GT(exact, 400);
  EXPECT_GT(inexact, 0) << "or nothing was tested of narrow beams";
}

TEST(SearchTest, TheAscentSolvesMostOfWhatEliminationLeaves) {
  int exact = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const double best = BestByTryingAll(problem);
    const SearchResult result = Search(problem, {.table_entries = 1, .beam_states = 1, .min_beam_width = 1});
    EXPECT_NEAR(result.cost.seconds, TotalOf(problem, result.choice), 1e-9);
    EXPECT_LE(result.lower_bound.seconds, best + 1e-8);
    if (!result.exact) continue;
    ++exact;
    EXPECT_NEAR(result.cost.seconds, best, 1e-8);
  }
  EXPECT_GT(exact, 300);
}

TEST(SearchTest, AValueWithManyReadersIsSolvedToo) {
  // 2^18 combinations: no table of them is made.
  std::mt19937 random(3);
  SearchProblem problem = Fan(17);
  problem.nodes[0].options[0].seconds = 0.4;
  for (int reader = 1; reader <= 17; ++reader) {
    for (SearchProblem::Option& option : problem.nodes[reader].options) {
      option.seconds = static_cast<double>(random() % 10) * 0.1;
    }
  }
  const SearchResult result = Search(problem);
  EXPECT_TRUE(result.exact);
  EXPECT_NEAR(result.cost.seconds, BestByTryingAll(problem), 1e-9);
}

TEST(SearchTest, LayersThatAreAlikeAreEliminatedAndPricedOnce) {
  int prices = 0;
  for (const int layers : {10, 300}) {  // 2,401 nodes
    SearchProblem problem = Ladder(layers);
    const auto boxing = problem.boxing;
    prices = 0;
    problem.boxing = [&](int value, int from, int to) {
      ++prices;
      return boxing(value, from, to);
    };
    const SearchResult result = Search(problem);
    EXPECT_TRUE(result.exact);
    EXPECT_EQ(result.core_units, 0);
    EXPECT_LE(prices, 4 * 4);
  }
}

}  // namespace
}  // namespace oneflow::testing
