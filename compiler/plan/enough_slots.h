// More slots where an order of acts needs them.
//
// Credits (credits.h) say how many slots registers should have by where their ends lie in a schedule. Whether that is
// enough is a question of all waits together: what a boxing has read may be wanted by another boxing first and by
// backward last, and circles of waits may go through several registers. So the plan is played, and whenever it comes to
// a stop the cheapest register on a circle of waits gets a slot more, and play goes on from there.
#pragma once

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// Linear in the acts and waits of a step where nothing has to be changed. A plan that no slots make live is left for
// its proof to refuse. REQUIRES: ports are there.
void GiveEnoughSlots(PhysicalPlan& plan);

}  // namespace oneflow
