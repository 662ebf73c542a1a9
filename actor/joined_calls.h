// Neighbouring instructions that are one call: those of one kernel that takes several at once (Kernel::run_many).
//
//   adamw(w1) adamw(w2) adamw(w3) scale(x) adamw(w4)      ──►  adamw(w1, w2, w3)  scale(x)  adamw(w4)
//
// One that reads or writes what an earlier one of the call writes, or writes what such a one reads, begins the next
// call: in which order a call's parts run is not said. Memory is compared as it may lie in any act.
#pragma once

#include <cstddef>
#include <vector>

#include "actor/instruction/bound_instruction.h"

namespace oneflow {

// By instruction: behind the last one of its call.
std::vector<size_t> JoinedCalls(const std::vector<const BoundInstruction*>& instructions);
// The same where none are joined.
std::vector<size_t> EachAlone(size_t instructions);

}  // namespace oneflow
