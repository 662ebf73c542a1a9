#include "compiler/select/alternatives.h"

#include <algorithm>
#include <limits>

#include "compiler/select/local_search.h"

namespace oneflow {

std::vector<Alternative> Alternatives(const SearchProblem& problem, const SearchResult& result, int node) {
  const CostGraph graph(problem);
  LocalSearch local(graph);
  local.Assume(graph.ToUnits(result.choice));
  const int id = graph.unit_of(node);
  const SearchProblem::Unit& unit = problem.units[id];
  const size_t member = std::find(unit.nodes.begin(), unit.nodes.end(), node) - unit.nodes.begin();
  std::vector<Alternative> alternatives;
  for (int option = 0; option < static_cast<int>(problem.nodes[node].options.size()); ++option) {
    if (option == result.choice[node]) {
      alternatives.push_back({option, result.cost, result.choice});
      continue;
    }
    double least = std::numeric_limits<double>::infinity();
    std::vector<int> adapted, best;  // options of units
    for (size_t i = 0; i < unit.options.size(); ++i) {
      if (unit.options[i][member] != option) continue;
      const double added = local.Added(id, static_cast<int>(i), &adapted);
      if (added < least) least = added, best = adapted;
    }
    if (best.empty()) continue;
    std::vector<int> choice = graph.ToNodes(best);
    const Cost cost = CostOf(problem, choice);
    alternatives.push_back({option, cost, std::move(choice)});
  }
  return alternatives;
}

}  // namespace oneflow
