// The proof of a written plan set, whoever wrote it: `oneflow plan check`.
//
// A checked plan may be trusted by everything that runs it:
//   tables    the format is known, all indices are in range, ids and names are unique
//   places    everything lies within the memory that it is said to lie in (plan_places.h)
//   rates     actors and registers agree on who fills and who reads; every register is filled as often as it is
//             emptied; acts are one per step or per micro-batch
//   boxings   each is one step that ranks can do
//   orders    each is of one queue of a class' ranks, and all calls of a class are in one
//   waits     one graph of data, credits and orders has no cycle without a token (compiler/plan/liveness.h)
//
// Not proved: that buffers of a plan's region with shared bytes are never in use at once, that registers for other
// processes lie in shared memory, that kernels exist for its instructions, and that attributes and initial values are
// those that kernels read. The compiler checks the first when it makes a plan, a worker the others when it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The size of the proof of one plan.
struct PlanProof {
  int64_t acts = 0;     // of one step; an actor stands for all its ranks
  int64_t data = 0;     // waits for a filled slot, one per act and reason
  int64_t credits = 0;  // waits for a free one
  int64_t ordered = 0;  // acts in orders of queues
};

// One entry per plan. InvalidArgument, saying where, what and both values, if one of the above does not hold;
// FailedPrecondition with a dead cycle and the credit that breaks it if a plan could deadlock. Its cost is linear in
// the acts and waits of a step; InvalidArgument if those are more than any plan's (2^24).
absl::StatusOr<std::vector<PlanProof>> CheckPlanSet(const pb::PlanSet& set);

// The proved and the unproved properties, for people. REQUIRES: `proofs` are those of `set`.
std::string ProofText(const pb::PlanSet& set, const std::vector<PlanProof>& proofs);

}  // namespace oneflow
