// Reads the tables of a written plan set: placements, types, classes, hosts. A plan may come from a file or from a
// peer: it is only known to parse.
#pragma once

#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"
#include "proto/plan.pb.h"
#include "sbp/topology.h"

namespace oneflow {

// Version of the plan format; a reader refuses any other.
inline constexpr uint32_t kPlanVersion = 10;

class PlanReader {
 public:
  struct Tensor {
    TensorType type;
    DistType dist;
    MemoryLayout layout = MemoryLayout::kRowMajor;
    // "f32[8,64,56,56] blocks".
    std::string ToString() const { return type.ToString() + Suffix(layout); }
  };

  // InvalidArgument, saying where, what and both values, if a table is malformed, a rank is in no class or in two, or a
  // plan names something that does not exist. Borrows `set`, whose plans may still be under construction if nothing is
  // asked about them.
  static absl::StatusOr<PlanReader> Open(const pb::PlanSet& set);

  int num_ranks() const { return static_cast<int>(class_of_rank_.size()); }
  int class_of_rank(int rank) const { return class_of_rank_[rank]; }
  const Placement& grid(int index) const { return grids_[index]; }
  const Tensor& tensor(int index) const { return tensors_[index]; }
  // Its links and speeds are not the job's: reads depend on distances only.
  const Topology& topology() const { return topology_; }
  Device device_of(int rank) const { return {device_, topology_.DeviceOf(rank)}; }

 private:
  absl::Status ReadRanks(const pb::PlanSet& set);
  absl::Status ReadGrid(const pb::RankGrid& grid);
  absl::Status ReadTensor(const pb::ClassTensor& tensor);

  std::vector<int> class_of_rank_;
  std::vector<Placement> grids_;
  int64_t grid_ranks_ = 0;  // in all of them
  std::vector<Tensor> tensors_;
  Topology topology_;
  DeviceKind device_ = DeviceKind::kCpu;
};

// Checks that all indices in plans and variables are in range, so that programs can be spelled out from them.
// InvalidArgument as above. `reader` has opened it.
absl::Status CheckPlanIndices(const pb::PlanSet& set, const PlanReader& reader);

// Where the region of a plan begins in a zone of a class: behind the variables and, if it runs beside others, behind
// their regions.
int64_t RegionBegin(const pb::PlanSet& set, const pb::ClassPlan& plan, int rank_class, int zone);

}  // namespace oneflow
