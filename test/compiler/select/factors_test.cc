#include "compiler/select/factors.h"

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

// The least total of choices in which every unit's option is still in its domain.
double BestOfWhatIsLeft(const SearchProblem& problem, const CostGraph& graph, const Factors& factors) {
  double best = std::numeric_limits<double>::infinity();
  ForEachChoice(problem, [&](const std::vector<int>& choice) {
    const std::vector<int> options = graph.ToUnits(choice);
    for (int unit = 0; unit < graph.num_units(); ++unit) {
      const std::vector<int>& left = factors.domain(unit);
      if (!std::binary_search(left.begin(), left.end(), options[unit])) return;
    }
    best = std::min(best, TotalOf(problem, choice));
  });
  return best;
}

TEST(FactorsTest, DroppingDominatedOptionsKeepsAnOptimum) {
  size_t before = 0, after = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed, 6);
    const CostGraph graph(problem);
    const double best = BestByTryingAll(problem);
    for (const double upper : {1e9, best}) {
      Factors factors(graph, upper);
      factors.Prune();
      EXPECT_NEAR(BestOfWhatIsLeft(problem, graph, factors), best, 1e-9) << "with the upper bound " << upper;
      for (int unit = 0; unit < graph.num_units(); ++unit) {
        before += problem.units[unit].options.size();
        after += factors.domain(unit).size();
      }
    }
  }
  EXPECT_LT(after, 0.8 * static_cast<double>(before));
}

TEST(FactorsTest, OfEqualOptionsTheFirstStays) {
  SearchProblem problem = Chain(2, 1);
  problem.nodes[0].options = {{{}, {0}, 2}, {{}, {0}, 1}, {{}, {0}, 1}};
  problem.units[0].options = {{0}, {1}, {2}};
  const CostGraph graph(problem);
  Factors factors(graph, 1e9);
  factors.Prune();
  EXPECT_THAT(factors.domain(0), ElementsAre(1));
  EXPECT_THAT(factors.domain(1), ElementsAre(0));
}

TEST(FactorsTest, AValueWithTooManyCombinationsForATableIsStillComparedSoundly) {
  // Six readers of six dists and a producer: 6^7 entries. All but two of the readers' options become too dear, one by
  // one.
  SearchProblem problem;
  SearchProblem::Node source;
  source.outputs = {0};
  for (int d = 0; d < 6; ++d) source.options.push_back({{}, {d}, 0.1 * d});
  problem.nodes.push_back(source);
  for (int reader = 1; reader <= 6; ++reader) {
    SearchProblem::Node node;
    node.inputs = {0};
    node.outputs = {reader};
    for (int d = 0; d < 6; ++d) node.options.push_back({{d}, {0}, d == reader % 6 ? 0 : d == 0 ? 0.7 : 2.5 + d});
    problem.nodes.push_back(node);
  }
  LinkValues(problem);
  AddSingleUnits(problem);
  problem.boxing = [](int, int from, int to) { return from == to ? Cost() : Cost{0, 1 + 0.1 * to}; };
  const CostGraph graph(problem);
  Factors factors(graph, 1e9);
  EXPECT_EQ(factors.factor(0).table, nullptr);
  factors.Prune();
  EXPECT_NEAR(BestOfWhatIsLeft(problem, graph, factors), BestByTryingAll(problem), 1e-9);
  EXPECT_LE(factors.domain(1).size(), 2u);
}

}  // namespace
}  // namespace oneflow::testing
