// Whether everything of a written plan lies within the memory that it says it has.
//
//   zone of a class   | variables | region of the plan: registers, what actors keep, workspaces |
//
// A variable lies among the variables of its zone and overlaps no other; a register with all its slots, what an actor
// keeps, and the workspace of an instruction lie within the region; an operand lies within the slot, the variable or
// the kept memory that it names, and a register that is no variable's is one of its actor's. That things of the region
// that share bytes are never in use at once is not looked at here: the compiler proves it of what it makes
// (compiler/plan/memory_check.h).
#pragma once

#include "compiler/lower/plan_reader.h"
#include "proto/plan.pb.h"

namespace oneflow {

// InvalidArgument, saying what, where it lies and how much room there is. REQUIRES: `reader` is of `set`, and
// CheckPlanIndices(set) is OK.
absl::Status CheckPlanPlaces(const pb::PlanSet& set, const PlanReader& reader);

// The classes that ranks of `grid` are in, ascending.
std::vector<int> ClassesOn(const PlanReader& reader, int grid);

}  // namespace oneflow
