#include "compiler/select/search.h"

#include <limits>
#include <random>

#include "gmock/gmock.h"

namespace oneflow {
namespace {

// A chain of `n` nodes with two layouts each, 0 and 1; changing between them costs `boxing`.
SearchProblem Chain(int n, double boxing) {
  SearchProblem problem;
  for (int i = 0; i < n; ++i) {
    SearchProblem::Node node;
    for (int layout : {0, 1}) {
      SearchProblem::Option option;
      if (i > 0) option.inputs = {layout};
      option.outputs = {layout};
      node.options.push_back(option);
    }
    if (i > 0) node.inputs = {i - 1};
    node.outputs = {i};
    node.streams = true;
    problem.nodes.push_back(node);
    SearchProblem::Value value;
    value.producer = i;
    if (i + 1 < n) value.readers = {{i + 1, 0}};
    problem.values.push_back(value);
    problem.units.push_back({{i}, {{0}, {1}}});
  }
  problem.boxing = [boxing](int, int from, int to) { return from == to ? 0 : boxing; };
  return problem;
}

// The total of `choice`, computed the plain way.
double TotalOf(const SearchProblem& problem, const std::vector<int>& choice) {
  double total = 0;
  for (size_t i = 0; i < problem.nodes.size(); ++i) total += problem.nodes[i].options[choice[i]].seconds;
  for (size_t id = 0; id < problem.values.size(); ++id) {
    const SearchProblem::Value& value = problem.values[id];
    const int from = problem.nodes[value.producer].options[choice[value.producer]].outputs[value.output];
    std::vector<int> paid;
    for (const auto& [reader, input] : value.readers) {
      const int to = problem.nodes[reader].options[choice[reader]].inputs[input];
      if (std::find(paid.begin(), paid.end(), to) == paid.end()) {
        paid.push_back(to);
        total += problem.boxing(static_cast<int>(id), from, to);
      }
    }
  }
  return total;
}

double BestByTryingAll(const SearchProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> choice(problem.nodes.size(), 0);
  while (true) {
    best = std::min(best, TotalOf(problem, choice));
    size_t i = 0;
    while (i < choice.size() && ++choice[i] == static_cast<int>(problem.nodes[i].options.size())) choice[i++] = 0;
    if (i == choice.size()) return best;
  }
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

TEST(SearchTest, IsCloseToTryingEverythingOnRandomGraphs) {
  double found = 0, best = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    SearchProblem problem;
    const int n = 7;
    for (int i = 0; i < n; ++i) {
      SearchProblem::Node node;
      for (int input = 0; input < std::min(i, 2); ++input) node.inputs.push_back(random() % i);
      node.outputs = {i};
      for (int option = 0; option < 3; ++option) {
        SearchProblem::Option o;
        for (size_t input = 0; input < node.inputs.size(); ++input) o.inputs.push_back(random() % 3);
        o.outputs = {static_cast<int>(random() % 3)};
        o.seconds = (random() % 10) * 0.1;
        node.options.push_back(o);
      }
      node.streams = random() % 4 != 0;
      problem.nodes.push_back(node);
      problem.values.push_back({i, 0, {}});
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        problem.values[node.inputs[input]].readers.push_back({i, static_cast<int>(input)});
      }
      problem.units.push_back({{i}, {{0}, {1}, {2}}});
    }
    problem.boxing = [](int value, int from, int to) {
      return from == to ? 0.0 : 0.3 + 0.1 * ((value + from + 2 * to) % 5);
    };
    const SearchResult result = Search(problem);
    EXPECT_NEAR(result.seconds, TotalOf(problem, result.choice), 1e-9);
    EXPECT_EQ(result.choice, Search(problem).choice);
    found += result.seconds;
    best += BestByTryingAll(problem);
  }
  EXPECT_LE(found, 1.1 * best);
}

}  // namespace
}  // namespace oneflow
