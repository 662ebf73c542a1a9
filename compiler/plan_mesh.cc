#include "compiler/plan_mesh.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace oneflow {
namespace {

Placement From(const Mesh& mesh, int first_rank) {
  std::vector<int> ranks(mesh.size());
  std::iota(ranks.begin(), ranks.end(), first_rank);
  return Placement(mesh.axes(), std::move(ranks));
}

}  // namespace

PlanMesh::PlanMesh(const Mesh& mesh, int first_rank) : PlanMesh(mesh, From(mesh, first_rank)) {}

PlanMesh::PlanMesh(const Mesh& mesh, Placement whole)
    : mesh_(mesh),
      whole_(std::move(whole)),
      last_rank_(*std::max_element(whole_.ranks().begin(), whole_.ranks().end())),
      stage_axis_(mesh.StageAxis()) {}

absl::StatusOr<PlanMesh> PlanMesh::Create(const Mesh& mesh, std::vector<int> ranks) {
  if (static_cast<int>(ranks.size()) != mesh.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a mesh of ", mesh.size(), " positions cannot lie on ", ranks.size(), " ranks"));
  }
  std::set<int> seen;
  for (const int rank : ranks) {
    if (rank < 0 || !seen.insert(rank).second)
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " is negative or named twice"));
  }
  return PlanMesh(mesh, Placement(mesh.axes(), std::move(ranks)));
}

absl::StatusOr<Placement> PlanMesh::Place(const PlacementHint& fixed) const {
  OF_ASSIGN_OR_RETURN(const Placement positions, mesh_.Place(fixed));
  std::vector<int> on;
  on.reserve(positions.ranks().size());
  for (const int position : positions.ranks()) on.push_back(ranks()[position]);
  return Placement(positions.axes(), std::move(on));
}

bool PlanMesh::Has(const Placement& placement) const {
  const int position = whole_.IndexOf(placement.ranks()[0]);
  if (position < 0) return false;
  const std::vector<int> at = whole_.Coordinates(position);
  PlacementHint fixed;
  for (int a = 0; a < whole_.num_axes(); ++a) {
    const Axis& axis = whole_.axes()[a];
    const auto free = std::find(placement.axes().begin(), placement.axes().end(), axis);
    if (free == placement.axes().end()) fixed.push_back({axis.name, at[a]});
  }
  return *Place(fixed) == placement;
}

int PlanMesh::CoordinateOf(int rank, absl::string_view axis) const {
  const int position = whole_.IndexOf(rank);
  for (int a = 0; a < whole_.num_axes() && position >= 0; ++a) {
    if (whole_.axes()[a].name == axis) return whole_.Coordinates(position)[a];
  }
  return 0;
}

absl::StatusOr<std::string> FindAxis(const Mesh& mesh, const std::string& wanted, absl::string_view field) {
  const AxisRole role = BuiltInRole(wanted);
  const std::vector<std::string> axes = role == AxisRole::kNone ? std::vector<std::string>() : mesh.AxesOf(role);
  if (axes.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is '", wanted, "': the mesh has '", axes[0], "' and '",
                                                   axes[1], "' for that; name one of them"));
  }
  if (axes.size() == 1) return axes[0];
  const auto named = [&](const Axis& axis) { return axis.name == wanted; };
  if (role == AxisRole::kNone && std::none_of(mesh.axes().begin(), mesh.axes().end(), named)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is '", wanted, "', which is no axis of the mesh ", AxesText(mesh.axes())));
  }
  return wanted;
}

}  // namespace oneflow
