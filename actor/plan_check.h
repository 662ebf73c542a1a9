// Whether a plan set makes sense, so that what runs it may trust every number. A plan may come from a file or from
// another host: nothing here assumes more than that it parsed.
//
// After CheckPlanSet returns OK, for every plan:
//   - indices are in range: actors, registers, ranks, communicators, the inputs that pieces name
//   - ports and registers agree on who produces and who consumes, and both sides use as many slots per step
//   - every slot, variable and fixed operand lies inside its zone; every operand inside its slot; every piece inside
//   both operands
//   - what another process reads lies in shared memory
//   - the owners' shards of a variable cover it exactly once
#pragma once

#include <cstdint>

#include "oneflow_core/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The version of the plan format that this runtime executes.
inline constexpr uint32_t kRuntimePlanVersion = 1;

// InvalidArgument, saying where, what and both values, if `plan` is malformed or has ranks for other processes than
// 0 .. num_processes - 1.
absl::Status CheckPlanSet(const pb::PlanSet& plan, int num_processes);

}  // namespace oneflow
