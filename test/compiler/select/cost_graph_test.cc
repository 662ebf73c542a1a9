#include "compiler/select/cost_graph.h"

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"

namespace oneflow::testing {
namespace {

TEST(CostGraphTest, TotalsAreThoseOfTheProblem) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed, 5);
    const CostGraph graph(problem);
    ForEachChoice(problem, [&](const std::vector<int>& choice) {
      const std::vector<int> options = graph.ToUnits(choice);
      EXPECT_EQ(graph.ToNodes(options), choice);
      EXPECT_NEAR(graph.Total(options), TotalOf(problem, choice), 1e-9);
    });
  }
}

TEST(CostGraphTest, AUnitThatMakesAndReadsAValueHasOnePortOnIt) {
  SearchProblem problem = Chain(2, 1);
  problem.units = {{{0, 1}, {{0, 0}, {1, 1}, {0, 1}}}};
  const CostGraph graph(problem);
  ASSERT_EQ(graph.value(0).ports.size(), 1u);
  const CostGraph::Port& port = graph.port(graph.value(0).ports[0]);
  EXPECT_EQ(port.states.size(), 3u);
  EXPECT_EQ(graph.Total({0}), 0);
  EXPECT_EQ(graph.Total({2}), 1) << "it boxes for itself";
}

TEST(CostGraphTest, AsksForAPriceOnceAmongValuesThatAreAlike) {
  SearchProblem problem = Chain(6, 1);
  for (SearchProblem::Value& value : problem.values) value.alike = 7;
  int asked = 0;
  problem.boxing = [&](int, int, int) { return ++asked, Cost{0, 1}; };
  const CostGraph graph(problem);
  EXPECT_EQ(graph.Total({0, 1, 0, 1, 0, 1}), 5);
  EXPECT_EQ(asked, 2);  // 0 to 1 and back
}

}  // namespace
}  // namespace oneflow::testing
