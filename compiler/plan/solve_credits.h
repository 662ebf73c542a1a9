// The fewest slots with which a plan reaches its best period (period.h), or a stated one; or the best period within a
// number of bytes.
//
// With unlimited slots only data and orders bound the period: that is the target, unless one is stated. Starting from
// the slots of the plan,
//
//   1. the cheapest register whose free slots the critical cycle waits for gets one more, until the target is reached;
//   2. each register, the dearest first, gives slots back while the period stays and no deadlock arises.
//
// The result is minimal: no register can have one less. It is not always the least of all; that is as hard as covering
// every cycle by registers of least weight.
//
// Under a cap it begins with the fewest slots that are live. The first step goes on while a register of the critical
// cycle has room, and both steps repeat while the slots that the second frees make the period shorter.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/plan/period.h"

namespace oneflow {

// The bytes of slots, by register.
struct SlotBytes {
  // Of one slot. Negative: the slots must stay, because they are a variable's memory. Registers that start filled must
  // keep theirs too: their tokens stand for state that has one place.
  std::vector<int64_t> of_one;
  // The devices, or classes of devices, that have the register: a cap applies to each. Empty: all have all.
  std::vector<std::vector<int>> devices;

  // Of all slots of a plan, on the device with the most.
  int64_t Most(const std::vector<int>& slots) const;
};

struct CreditGoal {
  double seconds = 0;      // of a step, at most; 0: as few as possible
  int64_t most_bytes = 0;  // of slots on a device; 0: no cap
};

struct SolvedCredits {
  Period before;
  Period after;
  std::vector<int> slots;  // by register
  // Registers that got more slots, in the order in which cycles asked for them.
  std::vector<int> raised;
};

// FailedPrecondition, with both figures, if no slots reach the stated period, or none do under the cap;
// ResourceExhausted if a cap has no room for the fewest slots that are live. REQUIRES: CheckLive is OK, `times` is of
// all actors, `bytes` of all registers; a goal is not negative.
absl::StatusOr<SolvedCredits> SolveCredits(const WaitGraph& graph, const ActTimes& times, const SlotBytes& bytes,
                                           const CreditGoal& goal = {});

}  // namespace oneflow
