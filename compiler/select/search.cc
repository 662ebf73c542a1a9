#include "compiler/select/search.h"

#include "compiler/select/beam.h"
#include "compiler/select/elimination.h"
#include "compiler/select/local_search.h"

namespace oneflow {
namespace {

SearchResult Result(const CostGraph& graph, const std::vector<int>& options) {
  SearchResult result;
  result.choice = graph.ToNodes(options);
  result.seconds = graph.Total(options);
  return result;
}

// What elimination left: the better of region moves from the start and the beam, the latter polished unless exact.
SearchResult SearchCoreOf(const CostGraph& graph, const Factors& factors, const Elimination& elimination,
                          const SearchLimits& limits, LocalSearch& local) {
  local.MoveRegions();
  const std::vector<int> core = elimination.core();
  BeamResult beam = SearchBeam(factors, core, local.Seconds(), limits);
  SearchResult result = Result(graph, local.options());
  if (beam.found) {
    elimination.Complete(beam.options);
    LocalSearch polish(graph);
    polish.Assume(beam.options);
    if (!beam.exact) polish.MoveRegions();
    if (polish.Seconds() < result.seconds) result = Result(graph, polish.options());
  }
  result.exact = beam.exact;
  result.lower_bound = beam.exact ? result.seconds : beam.lower_bound;
  result.core_units = static_cast<int>(core.size());
  return result;
}

}  // namespace

SearchResult Search(const SearchProblem& problem, const SearchLimits& limits) {
  const CostGraph graph(problem);
  LocalSearch local(graph);
  local.Sweep();
  local.Descend();
  Factors factors(graph, local.Seconds());
  factors.Prune();
  Elimination elimination(factors, limits);
  if (!elimination.Run()) return SearchCoreOf(graph, factors, elimination, limits, local);
  std::vector<int> options(graph.num_units(), 0);
  elimination.Complete(options);
  SearchResult result = Result(graph, options);
  result.exact = true;
  result.lower_bound = result.seconds;
  return result;
}

}  // namespace oneflow
