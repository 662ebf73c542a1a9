// The mesh of one plan, laid on ranks of the job. The plans of a job share variables, not meshes:
//
//   rank          0 1 2 3
//   train         * * * *     [dp=2,tp=2]
//   evaluate      * * * *     [tp=4]
//   generate          * *     [tp=2] from rank 2 on
//
// A rank has a place in each mesh, or none.
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/mesh.h"

namespace oneflow {

class PlanMesh {
 public:
  PlanMesh() : PlanMesh(Mesh()) {}  // rank 0, no axes
  // The ranks from `first_rank` on.
  PlanMesh(const Mesh& mesh, int first_rank = 0);  // NOLINT: a mesh lies on the first ranks unless told otherwise
  // The ranks at the positions of the mesh, last axis fastest. InvalidArgument if there are more or fewer ranks than
  // positions, or one is negative or named twice.
  static absl::StatusOr<PlanMesh> Create(const Mesh& mesh, std::vector<int> ranks);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<int>& ranks() const { return whole_.ranks(); }
  // The placement that covers the whole mesh.
  const Placement& whole() const { return whole_; }
  // The greatest rank.
  int last_rank() const { return last_rank_; }

  // As Mesh::Place, on these ranks.
  absl::StatusOr<Placement> Place(const PlacementHint& fixed) const;
  // Whether Place() can give `placement`.
  bool Has(const Placement& placement) const;
  // The coordinate of `rank` along an axis; 0 if the mesh has no such axis or no such rank.
  int CoordinateOf(int rank, absl::string_view axis) const;
  // The stage of `rank`: its coordinate along the mesh's StageAxis().
  int StageOf(int rank) const { return CoordinateOf(rank, stage_axis_); }
  int num_stages() const { return mesh_.AxisSize(stage_axis_); }

 private:
  PlanMesh(const Mesh& mesh, Placement whole);

  Mesh mesh_;
  Placement whole_;
  int last_rank_ = 0;
  std::string stage_axis_;
};

// The axis that `wanted` names, by its name or as a role of which the mesh has one; `wanted` itself where no axis has
// that role, so that one rank does as several would. InvalidArgument, beginning with the name of the field that asks,
// if the mesh has none of that name, or several of the role.
absl::StatusOr<std::string> FindAxis(const Mesh& mesh, const std::string& wanted, absl::string_view field);

}  // namespace oneflow
