// Slots of registers that a job names, instead of those that credits give (credits.h).
//
// Memory, its check and the proofs look at the slots that a plan has, wherever they come from.
#pragma once

#include <map>
#include <string>

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// By the registers' names. InvalidArgument, with the name, if there is no such register, if it has its slots because it
// is state (it starts filled, or is the memory of a variable), or if there are none, or more than memory can be counted
// for. Whether they are enough is for the proof of the plan to say.
absl::Status GiveSlots(const std::map<std::string, int>& slots, PhysicalPlan& plan);

}  // namespace oneflow
