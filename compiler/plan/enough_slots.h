// More slots where an order of acts needs them.
//
// Credits (credits.h) give each register slots by the places of its two ends in a schedule. All waits together may need
// more: another boxing may want the output of a boxing first and backward last, and cycles of waits may pass through
// several registers. So the plan is played. At a deadlock the cheapest register on a cycle of waits gets a slot more,
// and play goes on.
#pragma once

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// Linear in the acts and waits of a step if nothing has to change. A plan that no slots make live is left for its proof
// to refuse. REQUIRES: ports are filled in.
void GiveEnoughSlots(PhysicalPlan& plan);

}  // namespace oneflow
