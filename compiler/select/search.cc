#include "compiler/select/search.h"

#include "compiler/select/core_search.h"

namespace oneflow {
SearchResult Search(const SearchProblem& problem, const SearchLimits& limits) {
  const CostGraph graph(problem);
  LocalSearch local(graph);
  local.Sweep();
  local.Descend();
  Factors factors(graph, local.Seconds());
  factors.Prune();
  Elimination elimination(factors, limits);
  if (!elimination.Run()) return SearchCore(graph, factors, elimination, limits, local);
  std::vector<int> options(graph.num_units(), 0);
  elimination.Complete(options);
  SearchResult result;
  result.choice = graph.ToNodes(options);
  result.seconds = graph.Total(options);
  result.exact = true;
  result.lower_bound = result.seconds;
  return result;
}

}  // namespace oneflow
