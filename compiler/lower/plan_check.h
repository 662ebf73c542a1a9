// The proof of a written plan set, whoever wrote it: `oneflow plan check`.
//
// Everything that runs a plan may trust it afterwards:
//   tables    the format is one that is known, all indices are in range, ids and names are given once
//   places    everything lies within the memory that it is said to lie in (plan_places.h)
//   rates     actors and registers agree on who fills and who reads; every register is filled as often as it is
//             emptied; acts are one per step or per micro-batch
//   boxings   each is one step that ranks can do
//   orders    each is of what one queue of a class' ranks does, and all calls of a class are in one
//   waits     one graph of data, credits and orders has no cycle without a token (compiler/plan/liveness.h)
//
// What is not proved: that things of a plan's region that share bytes are never in use at once, that what other
// processes read lies in shared memory, that there are kernels for its instructions, and that attributes and initial
// values are such as they read. The compiler checks the first when it makes a plan, a worker the others when it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// What of one plan was looked at.
struct PlanProof {
  int64_t acts = 0;     // of one step, of actors that stand for all their ranks
  int64_t data = 0;     // waits for a filled slot, one per act and reason
  int64_t credits = 0;  // waits for a free one
  int64_t ordered = 0;  // acts in orders of queues
};

// One entry per plan. InvalidArgument, saying where, what and both values, if anything of the above does not hold;
// FailedPrecondition with a bad cycle and what breaks it if a plan could deadlock. Its cost is linear in the acts and
// waits of a step; InvalidArgument if those are more than any plan's (2^24).
absl::StatusOr<std::vector<PlanProof>> CheckPlanSet(const pb::PlanSet& set);

// What was proved and what was not, for people. REQUIRES: `proofs` are those of `set`.
std::string ProofText(const pb::PlanSet& set, const std::vector<PlanProof>& proofs);

}  // namespace oneflow
