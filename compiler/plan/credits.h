// Credits and priorities: how far an actor may run ahead, and which one acts first.
//
// With one slot in every register a plan is live (its chains have no cycle), so more slots only serve speed. Between
// computing actors only registers that are filled AND freed once per micro-batch can use them: the other end of a
// per-step register comes round once per step. Pipeline of S stages, k micro-batches:
//
//   stage 0   F0 F1 F2 B0 F3 B1 .. B2 B3
//   stage 1      F0 F1 B0 F2 B1 ..
//   stage 2         F0B0 F1B1
//
// A register from forward to backward on stage s has min(k, S - s) slots. So the stage can start that many forward acts
// before the first backward act; then each needs a slot that a backward act frees. Backward goes first when both are
// ready.
//
// Registers of read data and of values to fetch have one slot more, so that the host's queue runs ahead or behind.
//
// 1F1B follows from these credits and priorities without a schedule. Where a job names a schedule, the slots are as
// many as it holds at once.
#pragma once

#include "compiler/plan/orders.h"
#include "compiler/plan/physical_plan.h"

namespace oneflow {

// The readers of a register in a schedule; without a schedule nothing of any act.
struct InSchedule {
  const ActPlaces& acts;
  std::vector<int> readers;  // of the values that its producer's acts make
};

// Slots of a register, on all ranks that have it.
// REQUIRES: no placement spans stages, except homes of variables on another mesh.
int CreditsFor(const PlanInput& input, const PhysicalRegister& reg, const std::vector<PhysicalActor>& actors,
               const InSchedule& schedule);

// Order of priority: boxing, updates whose results go to a tier, backward, other updates, forward; boxings that
// gradients wait for come last. So peers are unblocked first, acts that free memory precede acts that take it, and
// stores that backward soon waits for begin as early as they can. Within a kind, and on queues of tiers, the chain that
// is earlier in the step goes first; on the host's queue the later one, so that the results of a step are handed out
// before the next but one is read.
int PriorityOf(const ChainGraph& chains, const Chain& chain);
// Of the actors that publish variables: other ranks wait for them and they cost nothing.
int PublisherPriority(const ChainGraph& chains);

}  // namespace oneflow
