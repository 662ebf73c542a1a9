// Neighbouring instructions that become one call of a kernel that takes several at once (Kernel::run_many).
//
//   adamw(w1) adamw(w2) adamw(w3) scale(x) adamw(w4)      ──►  adamw(w1, w2, w3)  scale(x)  adamw(w4)
//
// An instruction begins the next call if it reads or writes memory that an earlier one of the call writes, or writes
// memory that such a one reads: the parts of a call run in no stated order. Memory is compared over all slots.
#pragma once

#include <cstddef>
#include <vector>

#include "actor/instruction/bound_instruction.h"

namespace oneflow {

// By instruction: the index behind the last one of its call.
std::vector<size_t> JoinedCalls(const std::vector<const BoundInstruction*>& instructions);
// The same without joining.
std::vector<size_t> EachAlone(size_t instructions);

}  // namespace oneflow
