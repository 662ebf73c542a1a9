// Boxings of an actor that become one launch of the communication library, where ranks send: the gradients of a bucket,
// for example. Otherwise a bucket would take as many launches as it has tensors.
//
//   by itself    pack a   call a   unpack a   pack b   call b   unpack b
//   together     pack a   pack b   [call a    call b]  unpack a   unpack b          one launch
//
// A group consists of consecutive boxings from the same ranks to the same ranks, none of which reads what another
// makes. Which of their calls make one launch is found for each rank when its program is spelled out
// (compiler/lower/program_instructions.h).
#pragma once

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// Fills in the groups of all instructions; linear in the operands.
void GroupCalls(const Graph& graph, PhysicalPlan& plan);

}  // namespace oneflow
