// Whether everything of a written plan lies within its stated memory.
//
//   zone of a class   | variables | region of the plan: registers, what actors keep, workspaces |
//
// A variable lies among the variables of its zone and overlaps no other. A register with all its slots, the kept memory
// of an actor and the workspace of an instruction lie within the region. An operand lies within the slot, the variable
// or the kept memory that it names, and a register that is no variable's is one of its actor's. Whether buffers with
// shared bytes are in use at once is not examined here: the compiler proves it of its own plans
// (compiler/plan/memory_check.h).
#pragma once

#include "compiler/lower/plan_reader.h"
#include "proto/plan.pb.h"

namespace oneflow {

// InvalidArgument, saying what, where it lies and how much room there is. REQUIRES: `reader` is of `set`, and
// CheckPlanIndices(set) is OK.
absl::Status CheckPlanPlaces(const pb::PlanSet& set, const PlanReader& reader);

// The classes of the ranks of `grid`, ascending.
std::vector<int> ClassesOn(const PlanReader& reader, int grid);

}  // namespace oneflow
