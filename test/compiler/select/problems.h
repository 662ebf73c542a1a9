// Small search problems for tests, their totals computed the plain way, and their minimum found by trying everything.
#pragma once

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "compiler/select/search.h"

namespace oneflow::testing {

// Fills in the values' producers and readers from the nodes.
inline void LinkValues(SearchProblem& problem) {
  for (size_t id = 0; id < problem.nodes.size(); ++id) {
    const SearchProblem::Node& node = problem.nodes[id];
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      problem.values.resize(std::max<size_t>(problem.values.size(), node.outputs[i] + 1));
      problem.values[node.outputs[i]].producer = static_cast<int>(id);
      problem.values[node.outputs[i]].output = static_cast<int>(i);
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      problem.values[node.inputs[i]].readers.emplace_back(static_cast<int>(id), static_cast<int>(i));
    }
  }
}

// Gives every node that is in no unit yet one of its own.
inline void AddSingleUnits(SearchProblem& problem) {
  std::vector<bool> has_unit(problem.nodes.size(), false);
  for (const SearchProblem::Unit& unit : problem.units) {
    for (int node : unit.nodes) has_unit[node] = true;
  }
  for (size_t id = 0; id < problem.nodes.size(); ++id) {
    if (has_unit[id]) continue;
    SearchProblem::Unit unit{{static_cast<int>(id)}, {}};
    for (size_t option = 0; option < problem.nodes[id].options.size(); ++option) {
      unit.options.push_back({static_cast<int>(option)});
    }
    problem.units.push_back(std::move(unit));
  }
}

// After a change of the nodes: values as they now have them, and a unit for each.
inline void Relink(SearchProblem& problem) {
  problem.values.clear();
  problem.units.clear();
  LinkValues(problem);
  AddSingleUnits(problem);
}

// A chain of `n` nodes with two layouts each, 0 and 1; changing between them costs `boxing`.
inline SearchProblem Chain(int n, double boxing) {
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
  }
  Relink(problem);
  problem.boxing = [boxing](int, int from, int to) { return from == to ? Cost() : Cost{0, boxing}; };
  return problem;
}

// The first node of Chain(2, 1), and `readers` copies of the second, which all read what the first makes.
inline SearchProblem Fan(int readers) {
  SearchProblem problem = Chain(1, 1);
  for (int reader = 1; reader <= readers; ++reader) {
    problem.nodes.push_back(Chain(2, 1).nodes[1]);
    problem.nodes.back().outputs = {reader};
  }
  Relink(problem);
  return problem;
}

// `n` nodes of up to three options on three dists, each reading up to two of those before, so that values have several
// readers; now and then two nodes have to agree. Costs are small multiples of 0.1, so that ties are common,
// or, of even seeds, near such.
inline SearchProblem RandomProblem(unsigned seed, int n = 7) {
  std::mt19937 random(seed);
  SearchProblem problem;
  for (int i = 0; i < n; ++i) {
    SearchProblem::Node node;
    for (int input = 0; input < std::min(i, 2); ++input) node.inputs.push_back(static_cast<int>(random() % i));
    node.outputs = {i};
    for (int option = 0; option < 3; ++option) {
      SearchProblem::Option o;
      for (size_t input = 0; input < node.inputs.size(); ++input) o.inputs.push_back(static_cast<int>(random() % 3));
      o.outputs = {static_cast<int>(random() % 3)};
      o.seconds = static_cast<double>(random() % 10) * 0.1;
      if (seed % 2 == 0) o.seconds += static_cast<double>(random() % 4) * 0.001;
      node.options.push_back(o);
    }
    node.streams = random() % 4 != 0;
    problem.nodes.push_back(node);
  }
  LinkValues(problem);
  if (random() % 2 == 0) {
    const int a = static_cast<int>(random() % (n - 1)), b = a + 1 + static_cast<int>(random() % (n - 1 - a));
    problem.units.push_back({{a, b}, {{0, 1}, {1, 2}, {2, 2}, {1, 0}}});
  }
  AddSingleUnits(problem);
  problem.boxing = [](int value, int from, int to) {
    return from == to ? Cost() : Cost{0, 0.3 + 0.1 * ((value + from + 2 * to) % 5)};
  };
  return problem;
}

inline Cost TotalCostOf(const SearchProblem& problem, const std::vector<int>& choice) {
  Cost total;
  for (size_t i = 0; i < problem.nodes.size(); ++i) total.seconds += problem.nodes[i].options[choice[i]].seconds;
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

inline double TotalOf(const SearchProblem& problem, const std::vector<int>& choice) {
  return TotalCostOf(problem, choice).seconds;
}

// Calls visit(choice) for every choice that units allow.
template <typename Visit>
void ForEachChoice(const SearchProblem& problem, const Visit& visit) {
  std::vector<size_t> index(problem.units.size(), 0);
  std::vector<int> choice(problem.nodes.size());
  while (true) {
    for (size_t u = 0; u < index.size(); ++u) {
      const SearchProblem::Unit& unit = problem.units[u];
      for (size_t m = 0; m < unit.nodes.size(); ++m) choice[unit.nodes[m]] = unit.options[index[u]][m];
    }
    visit(choice);
    size_t u = 0;
    while (u < index.size() && ++index[u] == problem.units[u].options.size()) index[u++] = 0;
    if (u == index.size()) return;
  }
}

inline double BestByTryingAll(const SearchProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  ForEachChoice(problem, [&](const std::vector<int>& choice) { best = std::min(best, TotalOf(problem, choice)); });
  return best;
}

inline Cost LeastCost(const SearchProblem& problem) {
  Cost best = Cost::Impossible();
  ForEachChoice(problem, [&](const std::vector<int>& choice) { best = std::min(best, TotalCostOf(problem, choice)); });
  return best;
}

// The skeleton of training: a forward chain, a backward chain, each backward node reads what its forward node read, and
// at every layer three branches read the same value, as queries, keys and values do. All layers are alike.
inline SearchProblem Ladder(int layers, int dists = 4) {
  SearchProblem problem;
  std::vector<int> forward{0};  // values
  int next_value = 1;
  const auto add = [&](std::vector<int> inputs, int kind) {
    SearchProblem::Node node;
    for (int d = 0; d < dists; ++d) {
      SearchProblem::Option option;
      // Everything stays as it is, but for d = 1, which turns into 2 (columns, then rows).
      option.inputs.assign(inputs.size(), d);
      option.outputs = {d == 1 && kind == 1 ? 2 : d};
      option.seconds = 1e-3 * ((d * 5 + kind * 3) % 7 + 1);
      node.options.push_back(option);
    }
    node.inputs = std::move(inputs);
    node.outputs = {next_value++};
    node.streams = true;
    problem.nodes.push_back(std::move(node));
    return problem.nodes.back().outputs[0];
  };
  next_value = 0;
  add({}, 0);
  for (int layer = 0; layer < layers; ++layer) {
    const int x = forward.back();
    const int q = add({x}, 1), k = add({x}, 1), v = add({x}, 2);
    const int mixed = add({q, k, v}, 3);
    forward.push_back(add({x, mixed}, 4));
  }
  int gradient = forward.back();
  for (int layer = layers; layer-- > 0;) {
    const int x = forward[layer];
    const int q = add({x, gradient}, 1), k = add({x, gradient}, 2);
    gradient = add({gradient, q, k}, 3);
  }
  LinkValues(problem);
  AddSingleUnits(problem);
  for (SearchProblem::Value& value : problem.values) value.alike = 0;
  problem.boxing = [](int, int from, int to) {
    return from == to ? Cost() : Cost{0, 1e-3 * ((from * 3 + to) % 5 + 1)};
  };
  return problem;
}

}  // namespace oneflow::testing
