// What the boxings of a graph really read: for each its step, and per destination rank the sources it touches.
//
// A destination reads only what somebody needs: when a copy on some rank has no reader (an intermediate of which the next step
// takes only other ranks' copies), nothing is moved there, and sources that no piece touches are not waited for.
#pragma once

#include <map>
#include <vector>

#include "oneflow_core/graph.h"
#include "sbp/boxing.h"
#include "sbp/topology.h"

namespace oneflow {

struct BoxingUse {
  BoxingStep step;
  // Per index into to.placement.ranks(): indices into from.placement.ranks(), in the order of their first piece; empty also
  // where nobody needs the result.
  std::vector<std::vector<int>> sources;
};

struct Boxings {
  std::map<NodeId, BoxingUse> by_node;
  // Per value, per rank of its placement: whether anything there or elsewhere reads that shard.
  std::vector<std::vector<bool>> needed;
};

// Whether rank `index` of its placement executes `node`: all do, except that one rank is enough to hand a value to the host.
inline bool Executes(const Node& node, int index) { return node.op != "fetch" || index == 0; }

// Errors of OneBoxingStep, naming the node. REQUIRES: the contract of boxed_graph.h.
absl::StatusOr<Boxings> AnalyseBoxings(const Graph& graph, const Topology& topology);

}  // namespace oneflow
