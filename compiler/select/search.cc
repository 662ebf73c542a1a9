#include "compiler/select/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "compiler/select/core_search.h"

namespace oneflow {
namespace {

constexpr double kRoundingOfCounts = 1e-6;  // of a sum of whole numbers, each weighed

// `lower_bound` is of the weighed total.
struct Weighed {
  SearchResult result;
  double lower_bound = 0;
};

Weighed SearchWeighed(const SearchProblem& problem, const CostWeights& weights, const SearchLimits& limits) {
  const CostGraph graph(problem, weights);
  LocalSearch local(graph);
  local.Sweep();
  local.Descend();
  Factors factors(graph, local.Seconds());
  factors.Prune();
  Elimination elimination(factors, limits);
  CoreResult core;
  if (elimination.Run()) {
    core.options.assign(graph.num_units(), 0);
    elimination.Complete(core.options);
    core.exact = true;
    core.lower_bound = graph.Total(core.options);
  } else {
    core = SearchCore(graph, factors, elimination, limits, local);
  }
  Weighed it{{graph.ToNodes(core.options)}, core.lower_bound};
  it.result.cost = CostOf(problem, it.result.choice);
  it.result.exact = core.exact;
  it.result.core_units = core.core_units;
  return it;
}

// The bound on seconds of all choices that avoid as much as the best can.
void Bound(const CostWeights& weights, double least_avoided, Weighed& it) {
  SearchResult& result = it.result;
  const bool least = result.cost.avoided <= least_avoided;
  result.exact = result.exact && least;
  const double seconds = it.lower_bound - weights.Of({least_avoided, 0});
  result.lower_bound = result.exact ? result.cost : Cost{least_avoided, least ? std::max(0.0, seconds) : 0};
}

}  // namespace

SearchResult Search(const SearchProblem& problem, const SearchLimits& limits) {
  CostWeights weights = CostGraph::UsualWeights(problem);
  Weighed best = SearchWeighed(problem, weights, limits);
  double least_avoided = 0;
  if (best.result.cost.avoided > 0) {
    const Weighed least = SearchWeighed(problem, {1, 0}, limits);
    least_avoided = std::ceil(least.lower_bound - kRoundingOfCounts);
    if (least.result.cost.avoided < best.result.cost.avoided) {
      const double seconds = least.result.cost.seconds;
      weights.avoided = seconds > 0 ? seconds * (1 + kRoundingOfCounts) : 1;
      best = SearchWeighed(problem, weights, limits);
      if (least.result.cost < best.result.cost) {  // a search that is not exact
        best.result.choice = least.result.choice;
        best.result.cost = least.result.cost;
        best.result.exact = false;
      }
    }
  }
  Bound(weights, least_avoided, best);
  return best.result;
}

Cost CostOf(const SearchProblem& problem, const std::vector<int>& choice) {
  std::map<std::tuple<int, int, int>, Cost> prices;  // of values that are alike
  const auto price = [&](size_t id, int from, int to) {
    const int alike = problem.values[id].alike, value = static_cast<int>(id);
    if (alike < 0) return problem.boxing(value, from, to);
    const auto [it, is_new] = prices.try_emplace({alike, from, to});
    if (is_new) it->second = problem.boxing(value, from, to);
    return it->second;
  };
  Cost cost;
  for (size_t id = 0; id < choice.size(); ++id) cost.seconds += problem.nodes[id].options[choice[id]].seconds;
  for (size_t id = 0; id < problem.values.size(); ++id) {
    const SearchProblem::Value& value = problem.values[id];
    std::set<int> wanted;
    for (const auto& [reader, input] : value.readers) {
      wanted.insert(problem.nodes[reader].options[choice[reader]].inputs[input]);
    }
    const int from = problem.nodes[value.producer].options[choice[value.producer]].outputs[value.output];
    for (int to : wanted) {
      if (to != from) cost += price(id, from, to);
    }
  }
  return cost;
}

}  // namespace oneflow
