// When memory of a plan is in use, as far as waits order it.
//
// Every class of ranks has a clock: a cycle of acts on one rank, each of which waits for the one before it, the first
// for the last of the step before; as many as possible, where copies between tiers may count or not
// (`copies_on_clock`). An act on the clock takes a tick per instruction. Between two such acts is a gap, one tick more.
// An act that is not on the clock may happen anywhere from the gap after the last clock act that it waits for to the
// gap before the first clock act that waits for it:
//
//     tick      0    1  2   3    4  5  6   7    8              a register that `forward` fills and `update` reads
//             gap  forward gap  backward  gap  update          is in use from tick 1, 2 to 8
//                   └───────────────────────────┘
//
// A register is in use from the first instruction that writes a slot to the last that reads it, on any rank. A reader
// on another rank is known to be done when a clock act has waited for something that each such reader made afterwards:
// the next boxing within the group or a larger one; in a ring, where one rank reads, the next by which each rank reads
// the one that reads it. A use whose end has no order lasts all the time.
//
// A step is examined with two micro-batches, however many it has. Waits reach from one micro-batch to the next by the
// same rules, so an order that holds among two holds among all.
//
// Only waits that hold on every single rank are used (the readers are those of sbp/boxing_group.h: ReachOf). So uses
// that do not meet here meet on no rank. A test compares this with all waits of spelled-out plans
// (test/laws/memory_law_test.cc).
#pragma once

#include <vector>

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// On ranks of one class, the ticks from `first` to `last`, both included.
struct Ticks {
  int rank_class = 0;
  int first = 0;
  int last = 0;
  // Both ends are acts of the clock: it is in use all that time, not only perhaps.
  bool certain = true;
};

// Ascending by class; ticks that touch or overlap become one.
void Normalize(std::vector<Ticks>& ticks);

// The clock of a class, for packing.
struct Clock {
  int num_ticks = 1;      // at least 1
  std::vector<int> gaps;  // the ticks in which no act of the clock is executed, ascending
};

class Lifetimes {
 public:
  // Linear in the acts and waits of all classes, plus sorting. Where waits form a cycle without a token (the plan is
  // dead, and will be refused), everything lasts all the time.
  Lifetimes(const PlanInput& input, const PhysicalPlan& plan);

  // By class.
  const std::vector<Clock>& clocks() const { return clocks_; }
  // When slots of a register are in use; by class, disjoint.
  const std::vector<Ticks>& OfRegister(int reg) const { return of_register_[reg]; }
  // When acts of an actor execute instructions `first` to `last`; by class, disjoint.
  std::vector<Ticks> OfInstructions(int actor, int first, int last) const;

 private:
  // One act of an actor on the ranks of a class.
  struct ActTime {
    int rank_class = 0;
    bool on_clock = false;
    int first = 0;  // tick of its first instruction, or of the first gap in which it may happen
    int last = 0;   // off the clock: the last gap
  };
  friend class LifetimeFinder;

  void Add(int rank_class, int64_t first, int64_t last, bool certain, std::vector<Ticks>& out) const;

  std::vector<Clock> clocks_;
  std::vector<std::vector<Ticks>> of_register_;
  std::vector<std::vector<ActTime>> acts_;  // by actor
};

// The classes that have an instance of the actor, ascending.
std::vector<int> ClassesOf(const RankClasses& classes, const PhysicalActor& actor);

}  // namespace oneflow
