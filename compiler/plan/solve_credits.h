// The fewest slots with which a plan reaches its best period (period.h), or a stated one; or the best period that slots
// of so many bytes reach.
//
// With slots without end only data and orders bound the period: that is the target, unless one is stated. From the
// slots that a plan has,
//
//   1. the cheapest register whose free slots the critical circle waits for gets one more, until the target is reached;
//   2. each register, the dearest first, gives slots back while the period stays and no deadlock arises.
//
// What is left is minimal: no register can have one less. It is not always the least of all, which is as hard as
// covering every circle by registers of least weight.
//
// Under a cap it begins with the fewest slots that are live. The first step goes on while a register of the critical
// circle has room, and both steps again while what the second gives back makes the period shorter.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/plan/period.h"

namespace oneflow {

// What slots take, by register.
struct SlotBytes {
  // Of one. Negative: its slots must stay, because they are a variable's memory. So must those of what starts filled:
  // its tokens stand for state that has one place.
  std::vector<int64_t> of_one;
  // The devices, or classes of such, that have the register: a cap is of each. Empty: all have all.
  std::vector<std::vector<int>> devices;

  // Of all slots of a plan, on the device where that is most.
  int64_t Most(const std::vector<int>& slots) const;
};

struct CreditGoal {
  double seconds = 0;      // of a step, at most; 0: as few as can be
  int64_t most_bytes = 0;  // of slots on a device; 0: no cap
};

struct SolvedCredits {
  Period before;
  Period after;
  std::vector<int> slots;  // by register
  // Registers that were given more, in the order in which circles asked for them.
  std::vector<int> raised;
};

// FailedPrecondition, with both figures, if no slots reach the stated period, or none do under the cap;
// ResourceExhausted if a cap has no room for the fewest slots that are live. REQUIRES: CheckLive is OK, `times` is of
// all actors, `bytes` of all registers; a goal is not negative.
absl::StatusOr<SolvedCredits> SolveCredits(const WaitGraph& graph, const ActTimes& times, const SlotBytes& bytes,
                                           const CreditGoal& goal = {});

}  // namespace oneflow
