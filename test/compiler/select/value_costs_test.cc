#include "compiler/select/value_costs.h"

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"

namespace oneflow::testing {
namespace {

constexpr int kTypes = 5;

// A value of `readers` readers, which may lie and be wanted in five ways each, at random prices.
SearchProblem OneValue(std::mt19937& random, int readers) {
  SearchProblem problem;
  problem.nodes.resize(1);
  problem.nodes[0].outputs = {0};
  for (int type = 0; type < kTypes; ++type) problem.nodes[0].options.push_back({{}, {type}, 0});
  for (int reader = 1; reader <= readers; ++reader) {
    SearchProblem::Node node;
    node.inputs = {0};
    node.outputs = {reader};
    for (int type = 0; type < kTypes; ++type) node.options.push_back({{type}, {0}, 0});
    problem.nodes.push_back(node);
  }
  LinkValues(problem);
  AddSingleUnits(problem);
  std::vector<double> prices;
  for (int i = 0; i < kTypes * kTypes; ++i) prices.push_back(0.1 * static_cast<double>(random() % 20));
  problem.boxing = [prices](int, int from, int to) {
    return from == to ? Cost() : Cost{0, prices[from * kTypes + to]};
  };
  return problem;
}

using Table = std::vector<std::vector<double>>;  // by side and class

// By side and class the least over everything else that `fixed` allows, found by trying all.
Table TryAll(const CostGraph& graph, const Factor& factor, const Table& messages, const std::vector<int>& fixed) {
  const size_t sides = factor.sides.size();
  Table least(sides, std::vector<double>(kTypes, std::numeric_limits<double>::infinity()));
  std::vector<int> chosen(sides, 0);
  const auto state_of = [&](int port) {
    const size_t side = std::find(factor.ports.begin(), factor.ports.end(), port) - factor.ports.begin();
    return &graph.port(port).states[chosen[side]];
  };
  while (true) {
    double seconds = graph.ValueSeconds(factor.value, state_of);
    for (size_t s = 0; s < sides; ++s) seconds -= messages[s][chosen[s]];
    for (size_t s = 0; s < sides; ++s) {
      bool allowed = true;
      for (size_t t = 0; t < sides; ++t) allowed = allowed && (t == s || fixed[t] < 0 || fixed[t] == chosen[t]);
      if (allowed) least[s][chosen[s]] = std::min(least[s][chosen[s]], seconds + messages[s][chosen[s]]);
    }
    size_t s = 0;
    while (s < sides && ++chosen[s] == kTypes) chosen[s++] = 0;
    if (s == sides) return least;
  }
}

TEST(ValueCostsTest, SaysWhatATableOfAllCombinationsWouldSay) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const SearchProblem problem = OneValue(random, 6);
    const CostGraph graph(problem);
    const Factors factors(graph, 1e9);
    const Factor& factor = factors.factor(0);
    ASSERT_EQ(factor.table, nullptr) << "5^7 combinations";
    Table messages(7);
    std::vector<const std::vector<double>*> pointers;
    for (std::vector<double>& message : messages) {
      for (int c = 0; c < kTypes; ++c) message.push_back(0.1 * static_cast<double>(random() % 20) - 1);
      pointers.push_back(&message);
    }
    for (const bool some_fixed : {false, true}) {
      std::vector<int> fixed(7, -1);
      if (some_fixed) fixed[seed % 7] = 3, fixed[(seed + 2) % 7] = 1;
      const Table expected = TryAll(graph, factor, messages, fixed);
      const ValueCosts costs(factors, factor, 1e9);
      for (size_t side = 0; side < 7; ++side) {
        const std::vector<double> least = costs.Least(pointers, side, fixed);
        for (int c = 0; c < kTypes; ++c) {
          if (fixed[side] >= 0 && fixed[side] != c) continue;  // nobody asks
          EXPECT_NEAR(least[c], expected[side][c], 1e-9) << "side " << side << ", class " << c;
        }
      }
    }
  }
}

TEST(ValueCostsTest, OfManyReadersIsNeverTooDear) {
  std::mt19937 random(1);
  const SearchProblem problem = OneValue(random, 20);
  const CostGraph graph(problem);
  const Factors factors(graph, 1e9);
  const ValueCosts costs(factors, factors.factor(0), 1e9);
  const Table messages(21, std::vector<double>(kTypes, 0));
  std::vector<const std::vector<double>*> pointers;
  for (const std::vector<double>& message : messages) pointers.push_back(&message);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int> chosen;
    for (int side = 0; side < 21; ++side) chosen.push_back(static_cast<int>(random() % kTypes));
    const double seconds =
        graph.ValueSeconds(0, [&](int port) { return &graph.port(port).states[chosen[graph.port(port).unit]]; });
    EXPECT_LE(costs.Least(pointers, trial % 21, chosen)[chosen[trial % 21]], seconds + 1e-9);
  }
}

}  // namespace
}  // namespace oneflow::testing
