// The plan of a job for people: `oneflow plan show`.
#pragma once

#include <cstdint>
#include <string>

#include "oneflow_core/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Classes of ranks with their memory, variables, and per plan the registers, actors and instructions, each once for all
// ranks that have it. InvalidArgument if the plan is malformed.
absl::StatusOr<std::string> PlanText(const pb::PlanSet& set);

// Bytes that boxings of `plan` move between ranks in one step, in total. REQUIRES: `plan` is one of `set`, which is
// well formed.
absl::StatusOr<int64_t> PlannedBytesMoved(const pb::PlanSet& set, const pb::ClassPlan& plan);

}  // namespace oneflow
