// Credits and priorities: how far an actor may run ahead, and who goes first.
//
// With one slot in every register a plan is live (its chains have no cycle), so more slots are only for speed. Of what
// is computed, only registers that are filled AND freed once per micro-batch can use them: the other end of a per-step
// register comes round once per step. Pipeline of S stages, k micro-batches:
//
//   stage 0   F0 F1 F2 B0 F3 B1 .. B2 B3
//   stage 1      F0 F1 B0 F2 B1 ..
//   stage 2         F0B0 F1B1
//
// What stage s keeps for its backward chain has min(k, S - s) slots, so it can start that many forward acts before the
// first backward act; then each needs a slot that a backward act frees. Backward goes first when both are ready.
//
// What is read, or waits to be fetched, has a slot more, so that the host's queue runs ahead or behind.
//
// That is 1F1B, and it follows from credits and priorities: no schedule is written anywhere. Where a schedule is, what
// it holds at once counts instead.
#pragma once

#include "compiler/plan/orders.h"
#include "compiler/plan/physical_plan.h"

namespace oneflow {

// What a schedule says about a register: nothing of any act if there is none.
struct InSchedule {
  const ActPlaces& acts;
  std::vector<int> readers;  // of whatever its producer's acts make
};

// Slots of a register, on all ranks that have it.
// REQUIRES: no placement spans stages, but for homes of variables on another mesh.
int CreditsFor(const PlanInput& input, const PhysicalRegister& reg, const std::vector<PhysicalActor>& actors,
               const InSchedule& schedule);

// Boxing before backward before update before forward, but of boxings what gradients wait for last: peers are unblocked
// first, what frees memory comes before what takes it, and within one of these the chain that is earlier in the step.
// On the host's queue the later one: what a step ends with is handed out before the next but one is read.
int PriorityOf(const ChainGraph& chains, const Chain& chain);
// Of the actors that publish variables: other ranks wait for them and they cost nothing.
int PublisherPriority(const ChainGraph& chains);

}  // namespace oneflow
