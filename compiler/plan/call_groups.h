// Boxings of an actor that ranks perform together, where ranks send: the gradients of a bucket, say. Each by itself
// would be a launch of the communication library, of which a bucket would have as many as tensors.
//
//   by itself    pack a   call a   unpack a   pack b   call b   unpack b
//   together     pack a   pack b   [call a    call b]  unpack a   unpack b          one launch
//
// Together are boxings that follow one another from the same ranks to the same ranks and of which none reads what
// another makes. Which of their calls make one launch is found for each rank when its program is spelled out
// (compiler/lower/program_instructions.h).
#pragma once

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// Fills in the groups of all instructions; linear in the operands.
void GroupCalls(const Graph& graph, PhysicalPlan& plan);

}  // namespace oneflow
