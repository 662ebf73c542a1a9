// Annotations with priorities (AxisSbp::priority). Where the wishes of several nodes contradict one another, the
// weakest of them yields.
//
//   w: tp:S(0)     momentum: tp:S(1)@1     one update overwrites both     ->  momentum's wish for tp is dropped
//
// CandidateFinder settles contradictions at one node. Those of several nodes appear later, as an error with the nodes
// that it concerns.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/graph.h"

namespace oneflow {

// A wish of `value` along `axis`.
struct Wish {
  ValueId value = -1;
  std::string axis;
};

// The wish of the greatest priority for an output of `nodes`, of equal ones the first; none if all have priority 0,
// which does not yield.
std::optional<Wish> WeakestWish(const Graph& graph, const std::vector<NodeId>& nodes);
// REQUIRES: the value has that wish.
void DropWish(Graph& graph, const Wish& wish);

// Calls run(graph, conflict), which returns a StatusOr. With an error it may list nodes in `conflict`. Then the weakest
// of their wishes is dropped from a copy of the graph, and `run` starts again with the copy. Returns the first success,
// or the error that no wish can mend.
template <typename Run>
auto WithPriorities(const Graph& graph, const Run& run) {
  std::vector<NodeId> conflict;
  auto result = run(graph, conflict);
  if (result.ok() || !WeakestWish(graph, conflict).has_value()) return result;
  Graph relaxed = graph;
  while (!result.ok()) {
    const std::optional<Wish> wish = WeakestWish(relaxed, conflict);
    if (!wish.has_value()) return result;
    DropWish(relaxed, *wish);
    conflict.clear();
    result = run(relaxed, conflict);
  }
  return result;
}

}  // namespace oneflow
