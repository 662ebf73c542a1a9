#include "compiler/select/beam.h"

#include <numeric>

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"

namespace oneflow::testing {
namespace {

std::vector<int> All(const CostGraph& graph) {
  std::vector<int> units(graph.num_units());
  std::iota(units.begin(), units.end(), 0);
  return units;
}

TEST(BeamTest, AWideBeamIsExact) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const CostGraph graph(problem);
    const Factors factors(graph, 1e9);
    const BeamResult result = SearchBeam(factors, All(graph), 1e9, {});
    EXPECT_TRUE(result.found);
    EXPECT_TRUE(result.exact);
    EXPECT_NEAR(graph.Total(result.options), BestByTryingAll(problem), 1e-9);
    EXPECT_NEAR(result.lower_bound, graph.Total(result.options), 1e-9);
  }
}

TEST(BeamTest, FindsNothingWhereTheUpperBoundIsTheOptimum) {
  const SearchProblem problem = RandomProblem(5);
  const CostGraph graph(problem);
  const Factors factors(graph, 1e9);
  const double best = BestByTryingAll(problem);
  const BeamResult result = SearchBeam(factors, All(graph), best, {});
  EXPECT_FALSE(result.found);
  EXPECT_TRUE(result.exact);
  EXPECT_EQ(result.lower_bound, best);
}

TEST(BeamTest, ANarrowBeamSaysWhatItMayHaveMissed) {
  int inexact = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const CostGraph graph(problem);
    const Factors factors(graph, 1e9);
    const BeamResult result = SearchBeam(factors, All(graph), 1e9, {.beam_states = 1, .min_beam_width = 1});
    ASSERT_TRUE(result.found);
    const double best = BestByTryingAll(problem);
    EXPECT_LE(result.lower_bound, best + 1e-9);
    if (result.exact) {
      EXPECT_NEAR(graph.Total(result.options), best, 1e-9);
    }
    inexact += result.exact ? 0 : 1;
  }
  EXPECT_GT(inexact, 0);
}

TEST(BeamTest, ReadersOfAWideValueShareItsBoxings) {
  // 17 readers that all want 1 of a value that is made as 0: no table, one boxing.
  SearchProblem problem = Fan(17);
  problem.nodes[0].options[1].seconds = 3;
  for (int reader = 1; reader <= 17; ++reader) problem.nodes[reader].options[0].seconds = 2;
  const CostGraph graph(problem);
  const Factors factors(graph, 1e9);
  ASSERT_EQ(factors.factor(0).table, nullptr);
  const BeamResult result = SearchBeam(factors, All(graph), 1e9, {});
  EXPECT_TRUE(result.exact);
  EXPECT_DOUBLE_EQ(graph.Total(result.options), 1);
}

}  // namespace
}  // namespace oneflow::testing
