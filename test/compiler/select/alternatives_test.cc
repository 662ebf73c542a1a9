#include "compiler/select/alternatives.h"

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"

namespace oneflow::testing {
namespace {

TEST(AlternativesTest, ANeighbourhoodFollowsTheAlternative) {
  // Layout 1 costs 0.1 a node; a boxing costs 10, so that one node alone would never change.
  SearchProblem problem = Chain(5, 10);
  for (SearchProblem::Node& node : problem.nodes) node.options[1].seconds = 0.1;
  const std::vector<Alternative> alternatives = Alternatives(problem, Search(problem), 2);
  ASSERT_EQ(alternatives.size(), 2u);
  EXPECT_EQ(alternatives[0].option, 0);
  EXPECT_DOUBLE_EQ(alternatives[0].cost.seconds, 0);
  EXPECT_EQ(alternatives[1].option, 1);
  EXPECT_NEAR(alternatives[1].cost.seconds, 0.5, 1e-9);
}

TEST(AlternativesTest, AreNeverBelowTheBestThatTheOptionAllows) {
  double predicted = 0, best = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const SearchProblem problem = RandomProblem(seed, 6);
    const SearchResult result = Search(problem);
    for (const Alternative& alternative : Alternatives(problem, result, 3)) {
      double least = std::numeric_limits<double>::infinity();
      ForEachChoice(problem, [&](const std::vector<int>& choice) {
        if (choice[3] == alternative.option) least = std::min(least, TotalOf(problem, choice));
      });
      EXPECT_GE(alternative.cost.seconds, least - 1e-9);
      if (alternative.option == result.choice[3]) {
        EXPECT_EQ(alternative.cost.seconds, result.cost.seconds);
      }
      predicted += alternative.cost.seconds;
      best += least;
    }
  }
  EXPECT_LE(predicted, 1.1 * best);
}

}  // namespace
}  // namespace oneflow::testing
