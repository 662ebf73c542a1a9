#include "compiler/select/elimination.h"

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(EliminationTest, FindsTheOptimumWithoutPruning) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const CostGraph graph(problem);
    Factors factors(graph, 1e9);
    Elimination elimination(factors, {});
    ASSERT_TRUE(elimination.Run());
    EXPECT_THAT(elimination.core(), IsEmpty());
    EXPECT_NEAR(factors.constant(), BestByTryingAll(problem), 1e-9);
    std::vector<int> options(graph.num_units(), 0);
    elimination.Complete(options);
    EXPECT_NEAR(graph.Total(options), factors.constant(), 1e-9);
  }
}

TEST(EliminationTest, StopsAtItsLimitsAndWhatIsLeftHasTheSameOptimum) {
  int stopped = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const CostGraph graph(problem);
    Factors factors(graph, 1e9);
    Elimination elimination(factors, {.table_entries = 9});
    if (elimination.Run()) continue;
    ++stopped;
    // Whatever the core does, the rest completes it at best: over all choices of the core, the optimum is found.
    double best = std::numeric_limits<double>::infinity();
    ForEachChoice(problem, [&](const std::vector<int>& choice) {
      std::vector<int> options = graph.ToUnits(choice);
      for (int unit : elimination.core()) {
        const std::vector<int>& left = factors.domain(unit);
        if (!std::binary_search(left.begin(), left.end(), options[unit])) return;
      }
      elimination.Complete(options);
      best = std::min(best, graph.Total(options));
    });
    EXPECT_NEAR(best, BestByTryingAll(problem), 1e-9);
  }
  EXPECT_GT(stopped, 10);
}

TEST(EliminationTest, ALongChainTakesOneSmallTableANode) {
  const SearchProblem problem = Chain(1000, 1);
  const CostGraph graph(problem);
  Factors factors(graph, 1e9);
  Elimination elimination(factors, {.table_entries = 4, .total_entries = 4000});
  EXPECT_TRUE(elimination.Run());
  EXPECT_EQ(factors.constant(), 0);
}

TEST(EliminationTest, AUnitThatReadsThousandsOfValuesMakesNoneOfTheirStepsDearer) {
  const int n = 2000;  // gradients and the norm of all of them; each is eliminated beside the norm
  SearchProblem problem = Chain(1, 1);
  SearchProblem::Node norm = problem.nodes[0];
  const SearchProblem::Node gradient = problem.nodes[0];
  problem.nodes.assign(n, gradient);
  for (int i = 0; i < n; ++i) {
    problem.nodes[i].outputs = {i};
    problem.nodes[i].options[i % 2].seconds = 0.5;
    norm.inputs.push_back(i);
  }
  norm.outputs = {n};
  for (int layout : {0, 1}) norm.options[layout].inputs.assign(n, layout);
  problem.nodes.push_back(norm);
  Relink(problem);
  const CostGraph graph(problem);
  Factors factors(graph, 1e9);
  Elimination elimination(factors, {});
  EXPECT_TRUE(elimination.Run());
  EXPECT_DOUBLE_EQ(factors.constant(), 0.5 * n / 2);
  EXPECT_LE(elimination.looks(), 40 * n);
}

}  // namespace
}  // namespace oneflow::testing
