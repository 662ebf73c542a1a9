// One order for the calls that ranks make together.
//
// A call blocks its rank's device until all members have made it. Were rank 0 to launch call X before Y and rank 1 Y
// before X, both would wait for ever; with micro-batches in flight, who is ready first is a matter of timing. So the
// order is decided here: one step is played, a call being one act of all its members, and each rank's calls are
// launched in the order in which they happened:
//
//   stage 0   F0 send0 F1 send1 ........ receive0 B0 F2 send2 ..        stage 0: send send receive send ..
//   stage 1      receive0 F0 B0 send0 receive1 ..                       stage 1: receive send receive ..
//
// Orders that are one sequence seen from every rank cannot contradict each other: of all calls that are waited for,
// every member has launched all that come before the first. Acts without calls remain free. CheckLive proves it for
// the written plan, whoever ordered it.
#pragma once

#include "compiler/plan/liveness.h"
#include "compiler/plan/physical_plan.h"

namespace oneflow {

// The actors of `plan` that make calls together, transitively: an act may hold several calls.
std::vector<std::vector<int>> CallGroups(const PlanInput& input, const PhysicalPlan& plan);

// Sets plan.call_orders. FailedPrecondition, as CheckLive, if the plan could deadlock whatever the order. REQUIRES: the
// plan has all its instructions.
absl::Status OrderCalls(const PlanInput& input, PhysicalPlan& plan);

}  // namespace oneflow
