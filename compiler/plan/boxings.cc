#include "compiler/plan/boxings.h"

#include <algorithm>

#include "compiler/plan/collectives.h"

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

// Ranks count from the first source's, except where copies are chosen by distance.
Boxings::Key Boxings::KeyOf(DType dtype, const BoxingGroup& group) {
  const bool chooses =
      std::any_of(group.from.sbp.begin(), group.from.sbp.end(), [](const Sbp& sbp) { return sbp.is_broadcast(); });
  const int origin = chooses ? 0 : group.from.placement.ranks()[0];
  Key key{dtype, group.shape.dims(), {}, {}, group.from.sbp, group.to.sbp};
  for (const Placement& placement : {group.from.placement, group.to.placement}) {
    for (const Axis& axis : placement.axes()) {
      key.axes.push_back(axis.name);
      key.places.push_back(axis.size);
    }
    const bool regular = placement.strides().size() == placement.axes().size();
    const std::vector<int>& rest = regular ? placement.strides() : placement.ranks();
    key.places.push_back(placement.ranks()[0] - origin);
    for (const int number : rest) key.places.push_back(regular ? number : number - origin);
  }
  return key;
}

absl::StatusOr<SendBuffers> Boxings::BuffersOf(const Graph& graph, const Node& node) {
  const Value& from = graph.value(node.inputs[0]);
  const Value& to = graph.value(node.outputs[0]);
  // The group at coordinate 0 has the largest part along every axis on which nothing changes, and all groups do alike.
  const BoxingGroup group = GroupOf(from.type.shape, *from.dist, *to.dist, to.dist->placement.ranks()[0]);
  const auto [known, is_new] = known_.try_emplace(KeyOf(from.type.dtype, group));
  if (!is_new) return known->second;
  OF_ASSIGN_OR_RETURN(const BoxingStep step,
                      OneBoxingStep({from.type.dtype, group.shape}, group.from, group.to, topology_));
  SendBuffers& buffers = known->second;
  for (const auto& [rank, share] : ShareOut(group.shape, step)) {
    buffers.packed = std::max(buffers.packed, share.packed);
    buffers.received = std::max(buffers.received, share.received);
  }
  buffers.packed *= static_cast<int64_t>(SizeOf(from.type.dtype));
  buffers.received *= static_cast<int64_t>(SizeOf(from.type.dtype));
  return buffers;
}

}  // namespace oneflow
