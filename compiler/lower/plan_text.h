// The plan of a job for people: `oneflow plan show`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Classes of ranks with their memory, variables, and per plan the registers, actors and instructions, each once for all
// its ranks. InvalidArgument if the plan is malformed.
absl::StatusOr<std::string> PlanText(const pb::PlanSet& set);

// A boxing of a plan, and the bytes that it moves between ranks in one step.
struct PlannedBoxing {
  const pb::ClassActor* actor = nullptr;
  const pb::ClassInstruction* instruction = nullptr;
  int64_t bytes = 0;
};
// In the order of actors. REQUIRES: `plan` is one of `set`, which is well formed and outlives the result.
absl::StatusOr<std::vector<PlannedBoxing>> PlannedBoxings(const pb::PlanSet& set, const pb::ClassPlan& plan);

// The bytes of all of them. REQUIRES: as above.
absl::StatusOr<int64_t> PlannedBytesMoved(const pb::PlanSet& set, const pb::ClassPlan& plan);

}  // namespace oneflow
