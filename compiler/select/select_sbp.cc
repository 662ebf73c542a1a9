#include "compiler/select/select_sbp.h"

#include <algorithm>

#include "compiler/select/alternatives.h"
#include "compiler/select/layout_problem.h"
#include "compiler/select/wishes.h"

namespace oneflow {
namespace {

// The best choice that the limits allow. With an error, `conflict` lists the nodes whose wishes may be at fault.
absl::StatusOr<SearchResult> Solve(LayoutProblem& layouts, std::vector<NodeId>& conflict) {
  OF_RETURN_IF_ERROR(layouts.Build(conflict));
  SearchResult result;
  if (const std::vector<MemoryLimit> limits = layouts.Limits(); limits.empty()) {
    result = Search(layouts.problem());
  } else {
    OF_ASSIGN_OR_RETURN(result, SearchWithin(layouts.problem(), limits));
  }
  if (!result.cost.possible()) OF_RETURN_IF_ERROR(layouts.CheckPossible(result.choice, conflict));
  return result;
}

absl::StatusOr<Selection> Select(LayoutProblem& layouts, int num_nodes, std::vector<NodeId>& conflict) {
  OF_ASSIGN_OR_RETURN(const SearchResult result, Solve(layouts, conflict));
  Selection selection;
  selection.seconds = result.cost.seconds;
  selection.exact = result.exact;
  selection.lower_bound = result.lower_bound.seconds;
  selection.core_units = result.core_units;
  selection.num_prices = layouts.num_prices();
  selection.notes = layouts.Notes();
  for (NodeId id = 0; id < num_nodes; ++id) selection.layouts.push_back(layouts.LayoutsOf(id)[result.choice[id]]);
  return selection;
}

absl::StatusOr<std::vector<LayoutPrice>> Explain(LayoutProblem& layouts, NodeId node, std::vector<NodeId>& conflict) {
  OF_ASSIGN_OR_RETURN(const SearchResult result, Solve(layouts, conflict));
  std::vector<LayoutPrice> prices;
  for (const Alternative& one : Alternatives(layouts.problem(), result, node)) {
    if (one.cost.possible()) prices.push_back({layouts.LayoutsOf(node)[one.option], one.cost.seconds});
  }
  std::stable_sort(prices.begin(), prices.end(),
                   [](const LayoutPrice& a, const LayoutPrice& b) { return a.seconds < b.seconds; });
  return prices;
}

}  // namespace

absl::StatusOr<Selection> SelectSbp(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                                    const VariableDists& variables, const SelectOptions& options) {
  return WithPriorities(graph, [&](const Graph& wished, std::vector<NodeId>& conflict) {
    LayoutProblem layouts(wished, ops, topology, variables, options);
    return Select(layouts, wished.num_nodes(), conflict);
  });
}

absl::StatusOr<std::vector<LayoutPrice>> ExplainSelection(const Graph& graph, const OpRegistry& ops,
                                                          const Topology& topology, const VariableDists& variables,
                                                          const SelectOptions& options, NodeId node) {
  return WithPriorities(graph, [&](const Graph& wished, std::vector<NodeId>& conflict) {
    LayoutProblem layouts(wished, ops, topology, variables, options);
    return Explain(layouts, node, conflict);
  });
}

}  // namespace oneflow
