#include "compiler/plan/actor_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/node_view.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

double SecondsOf(const Graph& graph, NodeId id, const OpRegistry& ops, const DeviceSpeeds& device) {
  const NodeWork share = NodeView(graph, id, ops).largest_share();
  const std::vector<ValueId>& inputs = graph.node(id).inputs;
  const double rate = device.flops(inputs.empty() ? DType::kFloat32 : graph.value(inputs[0]).type.dtype);
  return share.flops / rate + share.bytes / device.memory_bytes_per_s;
}

int FindAxis(const Placement& placement, absl::string_view name) {
  for (int a = 0; a < placement.num_axes(); ++a) {
    if (placement.axes()[a].name == name) return a;
  }
  return -1;
}

// Whether ranks that differ along that axis of the mesh exchange data. A copy that lies along the whole axis is
// available to any placement without it.
bool Crosses(const DistType& from, const DistType& to, const Axis& axis, const PlanMesh& mesh) {
  const int f = FindAxis(from.placement, axis.name), t = FindAxis(to.placement, axis.name);
  if (f >= 0 && t >= 0) return from.sbp[f] != to.sbp[t] && !from.sbp[f].is_broadcast() && !to.sbp[t].is_partial();
  if (f >= 0) return !from.sbp[f].is_broadcast();
  if (t >= 0) return true;
  return mesh.CoordinateOf(from.placement.ranks()[0], axis.name) !=
         mesh.CoordinateOf(to.placement.ranks()[0], axis.name);
}

}  // namespace

std::vector<ActorPart> PartsOf(const Graph& graph, const Chain& chain, const OpRegistry& ops,
                               const DeviceSpeeds& device) {
  std::map<std::pair<Role, int>, double> seconds;
  for (const NodeId id : chain.nodes) {
    const Node& node = graph.node(id);
    seconds[{node.role, node.chunk}] += SecondsOf(graph, id, ops, device);
  }
  std::vector<ActorPart> parts;
  for (const auto& [part, s] : seconds) parts.push_back({part.first, part.second, s});
  return parts;
}

std::vector<std::string> AxesCrossed(const Graph& graph, const Chain& chain, const PlanMesh& mesh) {
  std::vector<std::string> crossed;
  for (const Axis& axis : mesh.whole().axes()) {
    const auto crosses = [&](NodeId id) {
      const Node& node = graph.node(id);
      return axis.size > 1 &&
             Crosses(*graph.value(node.inputs[0]).dist, *graph.value(node.outputs[0]).dist, axis, mesh);
    };
    if (std::any_of(chain.nodes.begin(), chain.nodes.end(), crosses)) crossed.push_back(axis.name);
  }
  return crossed;
}

}  // namespace oneflow
