#include "compiler/select/dual_ascent.h"

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"

namespace oneflow::testing {
namespace {

std::vector<int> UnitsWithAChoice(const Factors& factors) {
  std::vector<int> units;
  for (int unit = 0; unit < factors.num_units(); ++unit) {
    if (factors.domain(unit).size() > 1) units.push_back(unit);
  }
  return units;
}

TEST(DualAscentTest, TheBoundRisesAndIsNeverAboveTheBest) {
  int met = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const double best = BestByTryingAll(problem);
    const CostGraph graph(problem);
    const Factors factors(graph, 1e9);
    DualAscent ascent(factors, UnitsWithAChoice(factors), 1e9, {});
    double before = 0;
    for (int sweep = 0; sweep < 20; ++sweep) {
      ascent.Sweep();
      EXPECT_GE(ascent.bound(), before - 1e-9);
      EXPECT_LE(ascent.bound(), best + 1e-9);
      before = ascent.bound();
    }
    EXPECT_GE(graph.Total(ascent.Round()), best - 1e-9);
    met += ascent.bound() > best - 1e-3 ? 1 : 0;
  }
  EXPECT_GT(met, 100) << "or the bound is of no use";
}

TEST(DualAscentTest, SaysOfAnOptionNoMoreThanItCosts) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed);
    const CostGraph graph(problem);
    const Factors factors(graph, 1e9);
    DualAscent ascent(factors, UnitsWithAChoice(factors), 1e9, {});
    for (int sweep = 0; sweep < 10; ++sweep) ascent.Sweep();
    ForEachChoice(problem, [&](const std::vector<int>& choice) {
      const std::vector<int> options = graph.ToUnits(choice);
      const double total = TotalOf(problem, choice);
      for (int unit : UnitsWithAChoice(factors)) EXPECT_LE(ascent.Least(unit, options[unit]), total + 1e-9);
    });
  }
}

TEST(DualAscentTest, OnAChainOneSweepFindsTheBest) {
  SearchProblem problem = Chain(100, 1);
  for (int i = 0; i < 100; ++i) problem.nodes[i].options[(i / 10) % 2].seconds = 0.15;
  const CostGraph graph(problem);
  const Factors factors(graph, 1e9);
  DualAscent ascent(factors, UnitsWithAChoice(factors), 1e9, {});
  ascent.Sweep();
  EXPECT_NEAR(ascent.bound(), graph.Total(ascent.Round()), 1e-9);
  EXPECT_NEAR(ascent.bound(), 7, 1e-9) << "ten nodes are worth one boxing, at an end, and not two";
}

TEST(DualAscentTest, GoesOnWhereAnEarlierAscentEnded) {
  const SearchProblem problem = Ladder(10);
  const CostGraph graph(problem);
  Factors factors(graph, 1e9);
  DualAscent ascent(factors, UnitsWithAChoice(factors), 1e9, {});
  for (int sweep = 0; sweep < 10; ++sweep) ascent.Sweep();
  for (int unit : UnitsWithAChoice(factors)) {
    if (unit % 3 == 0) factors.Keep(unit, {0, 2, 3});
  }
  DualAscent next(factors, UnitsWithAChoice(factors), 1e9, ascent.messages());
  next.Sweep();
  EXPECT_GE(next.bound(), ascent.bound() - 1e-9) << "less is left, so the bound is no lower";
}

}  // namespace
}  // namespace oneflow::testing
