#include "compiler/plan/actor_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sbp/slices.h"

namespace oneflow {
namespace {

TensorType LargestShard(const Value& value) {
  return {value.type.dtype, ShardShape(value.type.shape, *value.dist, /*index=*/0)};
}

double FlopsPerSecond(const DeviceSpeeds& device, const std::vector<TensorType>& inputs) {
  if (!inputs.empty() && inputs[0].dtype == DType::kBFloat16) return device.bf16_flops;
  return !inputs.empty() && inputs[0].dtype == DType::kFloat16 ? device.f16_flops : device.f32_flops;
}

double SecondsOf(const Graph& graph, const Node& node, const OpRegistry& ops, const DeviceSpeeds& device) {
  std::vector<TensorType> inputs, outputs;
  double bytes = 0;
  for (const ValueId id : node.inputs) {
    inputs.push_back(LargestShard(graph.value(id)));
    bytes += static_cast<double>(inputs.back().num_bytes());
  }
  for (const ValueId id : node.outputs) {
    outputs.push_back(LargestShard(graph.value(id)));
    bytes += static_cast<double>(outputs.back().num_bytes());
  }
  const OpDef* const op = ops.Find(node.op);
  const double flops = op == nullptr ? 0 : FlopsOf(*op, inputs, outputs, node.attrs);
  return flops / FlopsPerSecond(device, inputs) + bytes / device.memory_bytes_per_s;
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
    seconds[{node.role, node.chunk}] += SecondsOf(graph, node, ops, device);
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
