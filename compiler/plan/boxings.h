// What the boxings of a graph really read: for each its step, and per destination rank the sources it touches.
//
// A destination reads only what somebody needs: when a copy on some rank has no reader (an intermediate of which the
// next step takes only other ranks' copies), nothing is moved there, and sources that no piece touches are not waited
// for.
//
// On cpu devices a destination reads its sources' memory. On others, ranks send: each has a share of the boxing
// (collectives.h), and reads and writes its own memory only.
#pragma once

#include <map>
#include <vector>

#include "compiler/plan/collectives.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/mesh.h"
#include "sbp/boxing.h"
#include "sbp/topology.h"

namespace oneflow {

struct BoxingUse {
  BoxingStep step;
  // Per index into to.placement.ranks(): indices into from.placement.ranks(), in the order of their first piece; empty
  // also where nobody needs the result.
  std::vector<std::vector<int>> sources;
  // By rank; empty where ranks read one another's memory.
  std::map<int, BoxingShare> shares;

  // The share of a rank; null if it has none.
  const BoxingShare* ShareOf(int rank) const {
    const auto it = shares.find(rank);
    return it == shares.end() ? nullptr : &it->second;
  }
};

struct Boxings {
  std::map<NodeId, BoxingUse> by_node;
  // Per value, per rank of its placement: whether anything there or elsewhere reads that shard.
  std::vector<std::vector<bool>> needed;
  bool by_sending = false;  // the uses have shares
};

// Whether rank `index` of its placement executes `node`: all do, except that one rank is enough to hand a value to the
// host.
inline bool Executes(const Node& node, int index) { return node.op != "fetch" || index == 0; }

// Errors of OneBoxingStep, naming the node. REQUIRES: the contract of boxed_graph.h.
absl::StatusOr<Boxings> AnalyseBoxings(const Graph& graph, const Topology& topology,
                                       DeviceKind device = DeviceKind::kCpu);

}  // namespace oneflow
