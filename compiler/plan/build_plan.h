// From chains to the physical plan: an actor per chain, a register per actor and set of readers, operands.
//
//   chain 0 ──reg: w0.g, w1.g──► boxing 1 ──reg──► chain 2   on every rank of a placement; an act of boxing 1 reads
//       ╲                                           │ ▲      the registers of all ranks that it has pieces from
//        ╲──────────────────reg─────────────────────┘ │
//   every chain that reads w  ◄──order w, one token───┘
//
// A value that only its own chain reads lies in the workspace. Values with the same reading actors share one register.
// An order without data becomes a register of no bytes. Chain 2 overwrites w: it waits until all have read it, and in
// the next step they wait until it has been overwritten.
//
// Variables are fixed memory. A variable that a chain overwrites is guarded by a register that starts filled. It has no
// bytes where only the own rank reads (one such register for all variables with the same readers); where boxings read
// the variable on other ranks, it is the variable's memory. A variable that nothing overwrites needs a guard only for
// other ranks; an actor without instructions publishes it.
#pragma once

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// Everything but memory offsets (see memory.h). Unimplemented if a variable is overwritten once per micro-batch while
// other chains read it; InvalidArgument if given slots are impossible (given_slots.h); Internal if the graph breaks the
// contract of boxed_graph.h.
absl::StatusOr<PhysicalPlan> BuildPhysicalPlan(const PlanInput& input, std::string name);

}  // namespace oneflow
