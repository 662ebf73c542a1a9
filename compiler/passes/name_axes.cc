// name-axes: annotations that name roles name the axes of the mesh. Models call an axis by the built-in name of its
// role, so that they lie on any mesh; all passes behind this one compare names of axes.
#include <algorithm>

#include "compiler/passes/passes.h"

namespace oneflow {
namespace {

class AxisNamer {
 public:
  explicit AxisNamer(const Mesh& mesh) : mesh_(mesh) {}

  // The axes that an annotation for `axis` is for: those of its role, or itself.
  std::vector<std::string> AxesFor(const std::string& axis) const {
    const AxisRole role = BuiltInRole(axis);
    std::vector<std::string> axes = role == AxisRole::kNone ? std::vector<std::string>() : mesh_.AxesOf(role);
    if (axes.empty()) axes.push_back(axis);
    return axes;
  }

  SbpHint Named(const SbpHint& hint) const {
    SbpHint named;
    for (const AxisSbp& wish : hint) {
      for (const std::string& axis : AxesFor(wish.axis)) Add({axis, wish.sbp, wish.priority}, hint, named);
    }
    return named;
  }

  absl::StatusOr<PlacementHint> Named(const PlacementHint& at) const {
    PlacementHint named;
    for (const AxisCoordinate& wish : at) {
      const std::vector<std::string> axes = AxesFor(wish.axis);
      if (axes.size() > 1) {
        return absl::InvalidArgumentError(absl::StrCat("placement ", wish.axis, "=", wish.coordinate,
                                                       ": the mesh has '", axes[0], "' and '", axes[1],
                                                       "' for that; name one of them"));
      }
      named.push_back({axes[0], wish.coordinate});
    }
    return named;
  }

 private:
  // A wish that names the axis itself counts more than one for its role.
  static void Add(AxisSbp wish, const SbpHint& given, SbpHint& named) {
    const auto same_axis = [&](const AxisSbp& other) { return other.axis == wish.axis; };
    const auto itself = std::find_if(given.begin(), given.end(), same_axis);
    if (itself != given.end()) wish = *itself;
    if (std::none_of(named.begin(), named.end(), same_axis)) named.push_back(std::move(wish));
  }

  const Mesh& mesh_;
};

}  // namespace

absl::StatusOr<bool> NameAxes(Graph& graph, PassContext& context) {
  const PlanMesh mesh = context.options.MeshOf(graph.name());
  const AxisNamer namer(mesh.mesh());
  bool changed = false;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    OF_ASSIGN_OR_RETURN_AT(PlacementHint at, namer.Named(node.at), Where(node));
    changed = changed || at != node.at;
    node.at = std::move(at);
    for (const ValueId output : node.outputs) {
      SbpHint& hint = graph.value(output).hint;
      SbpHint named = namer.Named(hint);
      changed = changed || named != hint;
      hint = std::move(named);
    }
  }
  return changed;
}

}  // namespace oneflow
