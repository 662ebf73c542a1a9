#include "compiler/select/local_search.h"

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"

namespace oneflow::testing {
namespace {

TEST(LocalSearchTest, NoMoveMakesThingsWorse) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const CostGraph graph(problem);
    LocalSearch local(graph);
    local.Sweep();
    const double start = local.Seconds();
    local.Descend();
    const double descended = local.Seconds();
    local.MoveRegions();
    EXPECT_LE(descended, start + 1e-9);
    EXPECT_LE(local.Seconds(), descended + 1e-9);
  }
}

TEST(LocalSearchTest, IsCloseToTryingEverythingOnRandomGraphs) {
  double found = 0, best = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    const SearchProblem problem = RandomProblem(seed);
    const CostGraph graph(problem);
    LocalSearch local(graph);
    local.Sweep();
    local.MoveRegions();
    found += local.Seconds();
    best += BestByTryingAll(problem);
  }
  EXPECT_LE(found, 1.002 * best);
}

TEST(LocalSearchTest, AskingWhatAnOptionAddsChangesNothing) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const CostGraph graph(problem);
    LocalSearch local(graph);
    local.Sweep();
    local.MoveRegions();
    const std::vector<int> before = local.options();
    for (int unit = 0; unit < graph.num_units(); ++unit) {
      for (size_t option = 0; option < graph.unit(unit).seconds.size(); ++option) {
        const double added = local.Added(unit, static_cast<int>(option));
        std::vector<int> alone = before;
        alone[unit] = static_cast<int>(option);
        EXPECT_LE(added, graph.Total(alone) - graph.Total(before) + 1e-9) << "the rest may adapt";
      }
    }
    EXPECT_EQ(local.options(), before);
  }
}

}  // namespace
}  // namespace oneflow::testing
