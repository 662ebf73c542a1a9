#include "compiler/plan/boxings.h"

#include <algorithm>

#include "compiler/plan/collectives.h"
#include "sbp/boxing_group.h"

namespace oneflow {

bool Boxings::ReadsOtherRanks(const Graph& graph, const Node& node) const {
  return !by_sending_ && !IsLocal(*graph.value(node.inputs[0]).dist, *graph.value(node.outputs[0]).dist);
}

bool Boxings::ReadsOtherProcesses(const Graph& graph, const Node& node) const {
  if (!ReadsOtherRanks(graph, node)) return false;
  const std::vector<int>& from = graph.value(node.inputs[0]).dist->placement.ranks();
  const std::vector<int>& to = graph.value(node.outputs[0]).dist->placement.ranks();
  const int process = topology_.ProcessOf(from[0]);
  const auto elsewhere = [&](int rank) { return topology_.ProcessOf(rank) != process; };
  return std::any_of(from.begin(), from.end(), elsewhere) || std::any_of(to.begin(), to.end(), elsewhere);
}

absl::StatusOr<SendBuffers> Boxings::BuffersOf(const Graph& graph, const Node& node) const {
  const Value& from = graph.value(node.inputs[0]);
  const Value& to = graph.value(node.outputs[0]);
  // The group at coordinate 0 has the largest part along every axis on which nothing changes, and all groups do alike.
  const BoxingGroup group = GroupOf(from.type.shape, *from.dist, *to.dist, to.dist->placement.ranks()[0]);
  OF_ASSIGN_OR_RETURN(const BoxingStep step,
                      OneBoxingStep({from.type.dtype, group.shape}, group.from, group.to, topology_));
  SendBuffers buffers;
  for (const auto& [rank, share] : ShareOut(group.shape, step)) {
    buffers.packed = std::max(buffers.packed, share.packed);
    buffers.received = std::max(buffers.received, share.received);
  }
  buffers.packed *= static_cast<int64_t>(SizeOf(from.type.dtype));
  buffers.received *= static_cast<int64_t>(SizeOf(from.type.dtype));
  return buffers;
}

}  // namespace oneflow
