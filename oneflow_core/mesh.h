// Devices, the mesh of a job, placements on it, and the distributed type of a tensor.
//
//   mesh [pp=2, dp=2, tp=2]: 8 ranks, last axis fastest      rank = (pp * 2 + dp) * 2 + tp
//   placement of stage pp=1: axes [dp=2, tp=2], ranks 4 5 6 7
//   a tensor there with SBP (S(0), B): dp splits dimension 0, both tp ranks hold the same half
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "oneflow_core/sbp.h"
#include "oneflow_core/status.h"

namespace oneflow {

enum class DeviceKind : uint8_t { kCpu = 0, kCuda = 1 };

// "cpu:0", "cuda:3": a device of one host.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  std::string ToString() const;
  // InvalidArgument unless `text` is cpu:N or cuda:N.
  static absl::StatusOr<Device> Parse(absl::string_view text);
  bool operator==(const Device& o) const { return kind == o.kind && index == o.index; }
};

// What an axis of a mesh is for.
enum class AxisRole : uint8_t { kNone, kStage, kBatch, kModel, kSequence, kExpert };

struct AxisRoleName {
  AxisRole role;
  absl::string_view name;      // "stage", ...
  absl::string_view built_in;  // an axis of this name has the role by itself, and annotations of models call it so
};
// All roles but kNone: pp stage, dp batch, tp model, cp sequence, ep expert.
absl::Span<const AxisRoleName> AxisRoleNames();

struct Axis {
  std::string name;
  int size = 1;
  AxisRole given_role = AxisRole::kNone;  // kNone: that of its name
  AxisRole role() const;
  // Whether it has that role. What is no expert's lies along an axis of experts as along one of batches.
  bool Has(AxisRole other) const;
  bool operator==(const Axis& o) const { return name == o.name && size == o.size; }
};

// The role that an axis of this name has by itself, or kNone. An annotation of such a name is for all axes of the role,
// so that one model may lie on any mesh.
AxisRole BuiltInRole(absl::string_view axis);

// "dp=2,tp=2".
std::string AxesText(absl::Span<const Axis> axes);

// A user's wish for where a part of the model lies: fixed coordinates on named mesh axes, such as {{"pp", 1}}.
struct AxisCoordinate {
  std::string axis;
  int coordinate = 0;
  bool operator==(const AxisCoordinate& o) const { return axis == o.axis && coordinate == o.coordinate; }
};
using PlacementHint = std::vector<AxisCoordinate>;

// An n-d grid of ranks with named axes: the ranks of a job that a tensor or an op lives on.
//
// A value whose copies share one immutable description. Every tensor of a graph has a placement, so a graph of 10^5
// nodes on 10^3 ranks would otherwise consist mostly of ranks. Grids with constant strides, such as all boxes of a
// mesh, are compared and searched without looking at their ranks.
class Placement {
 public:
  Placement();  // one rank, 0, no axes
  // REQUIRES: ranks.size() is the product of the axis sizes, ranks are distinct. Row-major: last axis fastest.
  Placement(std::vector<Axis> axes, std::vector<int> ranks);

  const std::vector<Axis>& axes() const { return grid_->axes; }
  const std::vector<int>& ranks() const { return grid_->ranks; }
  int num_axes() const { return static_cast<int>(axes().size()); }
  int size() const { return static_cast<int>(ranks().size()); }
  // The distance of neighbouring ranks along each axis (1 along axes of one rank); empty if it is not constant or the
  // axes do not nest.
  const std::vector<int>& strides() const { return grid_->strides; }
  // Position in ranks() of job rank `rank`, or -1. Linear only where strides() is empty.
  int IndexOf(int rank) const;
  // The coordinates of ranks()[index], one per axis.
  std::vector<int> Coordinates(int index) const;
  // Inverse of Coordinates().
  int IndexAt(const std::vector<int>& coordinates) const;

  // "[dp=2,tp=2]{4,5,6,7}".
  std::string ToString() const;
  // Inverse of ToString(). InvalidArgument if the sizes and the ranks do not agree.
  static absl::StatusOr<Placement> Parse(absl::string_view text);

  bool operator==(const Placement& o) const { return grid_ == o.grid_ || Compare(o) == 0; }
  bool operator!=(const Placement& o) const { return !(*this == o); }
  // By size, ranks and axes: a total order for deterministic tables.
  bool operator<(const Placement& o) const { return grid_ != o.grid_ && Compare(o) < 0; }

 private:
  struct Grid {
    std::vector<Axis> axes;
    std::vector<int> ranks;
    std::vector<int> strides;
  };

  int Compare(const Placement& o) const;  // negative, 0, positive

  std::shared_ptr<const Grid> grid_;
};

// Whether both have the same axes, and the same ranks in some order.
bool HasRanksOf(const Placement& placement, const Placement& other);

// The whole grid of a job: ranks 0 .. size-1, row-major over the axes.
class Mesh {
 public:
  Mesh() = default;
  // InvalidArgument if an axis is empty, named twice or not by a word, or two have the role of stages.
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  int size() const;
  // Size of the axis, 1 if the mesh has none of that name.
  int AxisSize(absl::string_view name) const;
  // The names of the axes of a role, in order.
  std::vector<std::string> AxesOf(AxisRole role) const;
  // The axis along which the stages of a pipeline lie; "pp", of size 1, if there is none.
  std::string StageAxis() const;
  // The ranks whose coordinates equal `fixed`, on the axes that `fixed` does not name. Axes that the mesh lacks may
  // only be fixed at 0. InvalidArgument if a coordinate is outside its axis.
  absl::StatusOr<Placement> Place(const PlacementHint& fixed) const;

 private:
  std::vector<Axis> axes_;
};

// A placement and an SBP for each of its axes: where and how a logical tensor lies.
struct DistType {
  Placement placement;
  NdSbp sbp;
  // "[dp=2]{0,1}(S(0))".
  std::string ToString() const { return placement.ToString() + oneflow::ToString(sbp); }
  bool operator==(const DistType& o) const { return placement == o.placement && sbp == o.sbp; }
  bool operator!=(const DistType& o) const { return !(*this == o); }
};

}  // namespace oneflow
