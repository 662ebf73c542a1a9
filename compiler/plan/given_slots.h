// Slots of registers that a job sets, instead of those that credits give (credits.h).
//
// Memory, its check and the proofs read the slots of the plan, wherever they come from.
#pragma once

#include <map>
#include <string>

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// By the names of registers. InvalidArgument, with the name, if there is no such register, if its slots are state (it
// starts filled, or is the memory of a variable), or if the number is not positive or too large to count memory with.
// The proof of the plan says whether they are enough.
absl::Status GiveSlots(const std::map<std::string, int>& slots, PhysicalPlan& plan);

}  // namespace oneflow
