#include "compiler/zero.h"

#include "sbp/boxing_price.h"

namespace oneflow {

std::set<std::string> AxesNamed(const Mesh& mesh, const std::string& name) {
  std::set<std::string> axes;
  const AxisRole role = BuiltInRole(name);
  for (const Axis& axis : mesh.axes()) {
    const bool is_it = role == AxisRole::kNone ? axis.name == name : axis.Has(role);
    if (is_it && axis.size > 1) axes.insert(axis.name);
  }
  return axes;
}

std::set<std::string> ZeroAxes(const CompileOptions& options, const Graph& graph) {
  if (!options.zero.has_value()) return {};
  return AxesNamed(options.MeshOf(graph.name()).mesh(), options.zero->axis);
}

int64_t UnitBytes(const ZeroOptions& zero, const Placement& on, const Topology& topology) {
  return zero.unit_bytes > 0 ? zero.unit_bytes : BucketBytes(on, on, topology);
}

}  // namespace oneflow
