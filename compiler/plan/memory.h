// Offsets. A zone of a rank holds the variables and, behind them, a region of the plan for everything temporary:
// registers (slots · stride each), memory that actors keep from act to act, and workspaces.
//
//   private  | variables | region of the plan: registers, pinned, workspaces, at any offsets |
//   shared   | variables | region of the plan: registers that other processes read           |
//
// Plans of one job never run at the same time, so all of them start behind the variables, and a zone is as large as its
// largest plan. Offsets within the region are equal on all ranks that have a buffer; the beginning of the region
// depends on the class.
//
// Buffers that are not in use at the same time (lifetimes.h) may share bytes: registers over the whole step, values of
// a workspace from the instruction that makes them to their last reader, and both with each other. So may registers
// that are loaded from tiers one after the other, whose use the clock does not tell apart (direct_order.h).
#pragma once

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// Sets every offset of `plan`, its `classes`, and of its clocks those by which it needs less memory. An output takes
// the place of an input where the op allows it and this is the input's last use. InvalidArgument, naming the graph's
// largest value, if the sum of sizes is too large to count.
absl::Status AssignMemory(const PlanInput& input, PhysicalPlan& plan);

}  // namespace oneflow
