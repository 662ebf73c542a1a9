// Offsets: every zone of a rank is the variables and behind them a region of the plan, in which everything lies that it
// uses for a while: registers (slots · stride each), what actors keep from act to act, and the workspaces of acts.
//
//   private  | variables | region of the plan: registers, pinned, workspaces, at any offsets |
//   shared   | variables | region of the plan: registers that other processes read           |
//
// Plans of one job never run at the same time, so all of them start behind the variables; a zone is as large as its
// largest plan. Offsets within the region hold on all ranks that have a thing; where the region begins is the class'.
//
// What is not in use at the same time (lifetimes.h) may share bytes: registers over the whole step, values of a
// workspace from the instruction that makes them to the last that reads them, and each with the other.
#pragma once

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// Sets every offset of `plan`, and its `classes`. An output takes its input's place where the op allows it and that was
// the input's last use. InvalidArgument, naming the graph's largest value, if sizes add up to more than can be counted.
absl::Status AssignMemory(const PlanInput& input, PhysicalPlan& plan);

}  // namespace oneflow
