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
      alternatives.push_back({option, result.seconds});
      continue;
    }
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < unit.options.size(); ++i) {
      if (unit.options[i][member] == option) least = std::min(least, local.Added(id, static_cast<int>(i)));
    }
    if (least < std::numeric_limits<double>::infinity()) alternatives.push_back({option, result.seconds + least});
  }
  return alternatives;
}

}  // namespace oneflow
