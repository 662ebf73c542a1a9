// Checks that no two buffers of a plan overlap while both may be in use. It knows nothing of the packing: it looks at
// the finished operands only. It takes lifetimes from the same clock (lifetimes.h).
//
//   - In each zone of a class of ranks, variables are disjoint; registers (all slots), pinned memory and values of
//     workspaces lie within the plan's region behind them, and no two lie on the same bytes while both may be in use
//     (lifetimes.h says when); a register that is a variable is exactly as large.
//   - Tensors of one register are disjoint and lie within its slot.
//   - An act, executed on names instead of numbers, finds at every read of the workspace exactly the value that the
//     graph means; nothing in the workspace has to outlive an act.
//   - Pinned memory has one writer.
#pragma once

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// Internal, naming the class, both buffers and their offsets.
absl::Status CheckMemory(const PlanInput& input, const PhysicalPlan& plan);

}  // namespace oneflow
