// Registers that may lie on the same bytes although the clock of lifetimes.h does not tell their uses apart: what fills
// one waits until the other has been read, as where units are loaded into the room that others have left. Neither act
// need be on the clock:
//
//     first    load ── update ── store              load (of the next step)
//                                  └─► load ── update ── store ──┘
//     second
//
// Looked at are registers that a copy between tiers fills once a step and that only the same rank reads, so that what
// holds of one rank holds of all.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/physical_plan.h"

namespace oneflow {

class OwnWaits;

class DirectOrder {
 public:
  // Costs waits between acts times loads / 64; nothing where nothing is loaded.
  DirectOrder(const PlanInput& input, const PhysicalPlan& plan);

  // Those that are looked at, in an order in which they may be filled.
  const std::vector<int>& registers() const { return registers_; }
  // Whether in every step the use of `first` is over before `second` is filled, and that of `second` before the next
  // step fills `first`. REQUIRES: both are looked at.
  bool TakeTurns(int first, int second) const;

 private:
  // What has been read when a register is filled: a bit for each reading of its group.
  struct Filled {
    int group = -1;  // a register of the same placement
    int first_reading = 0, num_readings = 0;
    std::vector<uint64_t> in_step, in_last_step;
  };

  void LookAt(const Placement& placement, const std::vector<int>& members, const PhysicalPlan& plan,
              const OwnWaits& waits);

  std::vector<int> registers_;
  std::vector<int> place_;  // by register: in `filled_`; -1: not looked at
  std::vector<Filled> filled_;
};

}  // namespace oneflow
