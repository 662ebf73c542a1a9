// Writes the physical plan as proto/plan.proto: the last step of the compiler. Only this folder uses protobuf.
//
// An instruction has the attributes of its node. Ops that draw random numbers also get the integers `seed` (of the job)
// and `key` (a fingerprint of the drawing op), which replace attributes of these names. Types and placements are
// written once, as tables.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "compiler/options.h"
#include "compiler/plan/physical_plan.h"
#include "proto/plan.pb.h"

namespace oneflow {

// FNV-1a, 64 bits: the fingerprint of names in keys of random numbers.
uint64_t Fingerprint(absl::string_view text);

// Fills the tables of a plan set.
class PlanTables {
 public:
  explicit PlanTables(pb::PlanSet& set) : set_(set) {}

  // The index of the placement, or of the layout of a tensor; added if it is new.
  int Grid(const Placement& placement);
  int Tensor(const TensorType& type, const DistType& dist, MemoryLayout layout = MemoryLayout::kRowMajor);

 private:
  pb::PlanSet& set_;
  std::map<Placement, int> grids_;
  std::map<std::tuple<int, std::vector<int64_t>, int, MemoryLayout, int, NdSbp>, int> tensors_;
};

// InvalidArgument if the plan has more actors or registers, on all ranks together, than an id can number. The order of
// calls is added later (see OrderPlanCalls).
absl::StatusOr<pb::ClassPlan> LowerPlan(const PlanInput& input, const PhysicalPlan& plan, uint64_t seed,
                                        PlanTables& tables);

// The ranks and their classes, with zones as large as their largest plan.
void LowerRanks(const Topology& topology, DeviceKind device, const RankClasses& classes, const VariableTable& variables,
                const std::vector<PhysicalPlan>& plans, pb::PlanSet& set);
// Reserves host memory for the part of the job's checkpoints that each rank writes.
void AddCheckpointCopies(const RankClasses& classes, const VariableTable& variables, pb::PlanSet& set);
void LowerVariables(const VariableTable& variables, PlanTables& tables, pb::PlanSet& set);

}  // namespace oneflow
