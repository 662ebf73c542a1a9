// The fewest slots with which a plan reaches its best period (period.h).
//
// With slots without end only data and orders bound the period: that is the target. From the slots that a plan has,
//
//   1. the cheapest register whose free slots the critical circle waits for gets one more, until the target is reached;
//   2. each register, the dearest first, gives slots back while the period stays and no deadlock arises.
//
// What is left is minimal: no register can have one less. It is not always the least of all, which is as hard as
// covering every circle by registers of least weight.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/period.h"

namespace oneflow {

struct SolvedCredits {
  Period before;
  Period after;
  std::vector<int> slots;  // by register
  // Registers that were given more, in the order in which circles asked for them.
  std::vector<int> raised;
};

// `slot_bytes` is by register; negative: its slots must stay, because they are a variable's memory. So must those of
// what starts filled: its tokens stand for state that has one place. REQUIRES: CheckLive is OK, `times` is of all
// actors.
SolvedCredits SolveCredits(const WaitGraph& graph, const ActTimes& times, const std::vector<int64_t>& slot_bytes);

}  // namespace oneflow
