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
  EXPECT_EQ(result.seconds, 0);
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
  EXPECT_DOUBLE_EQ(result.seconds, 0.5);
  // Worth it now: 10 * 0.3 against two boxings.
  for (int i = 1; i < 11; ++i) problem.nodes[i].options[0].seconds = 0.3;
  EXPECT_DOUBLE_EQ(Search(problem).seconds, 2);
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
  EXPECT_DOUBLE_EQ(Search(problem).seconds, 1);
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
    EXPECT_NEAR(result.seconds, TotalOf(problem, result.choice), 1e-9);
    EXPECT_NEAR(result.seconds, BestByTryingAll(problem), 1e-9);
    EXPECT_EQ(result.lower_bound, result.seconds);
    EXPECT_EQ(result.choice, Search(problem).choice);
  }
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
      EXPECT_NEAR(result.seconds, TotalOf(problem, result.choice), 1e-9);
      EXPECT_LE(result.seconds, local.Seconds() + 1e-9) << "never worse than moves alone";
      EXPECT_LE(result.lower_bound, best + 1e-9);
      if (result.exact || width == 1000) {
        EXPECT_NEAR(result.seconds, best, 1e-9);
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
    EXPECT_NEAR(result.seconds, TotalOf(problem, result.choice), 1e-9);
    EXPECT_LE(result.lower_bound, best + 1e-8);
    if (!result.exact) continue;
    ++exact;
    EXPECT_NEAR(result.seconds, best, 1e-8);
  }
  EXPECT_GT(exact, 300);
}

TEST(SearchTest, AValueWithManyReadersIsSolvedToo) {
  // 2^18 combinations: no table of them is made.
  std::mt19937 random(3);
  SearchProblem problem = Chain(1, 1);
  problem.nodes[0].options[0].seconds = 0.4;
  for (int reader = 1; reader <= 17; ++reader) {
    SearchProblem::Node node = Chain(2, 1).nodes[1];
    node.inputs = {0};
    node.outputs = {reader};
    for (SearchProblem::Option& option : node.options) option.seconds = static_cast<double>(random() % 10) * 0.1;
    problem.nodes.push_back(node);
  }
  problem.values.clear();
  problem.units.clear();
  LinkValues(problem);
  AddSingleUnits(problem);
  const SearchResult result = Search(problem);
  EXPECT_TRUE(result.exact);
  EXPECT_NEAR(result.seconds, BestByTryingAll(problem), 1e-9);
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
