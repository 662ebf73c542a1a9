// One order for the calls that several ranks make together.
//
// A call blocks the device of its rank until all members have made it. If rank 0 launches call X before Y and rank 1 Y
// before X, both wait for ever. With micro-batches in flight, which call is ready first depends on timing. So the order
// is decided here: one step is played with a call as one act of all its members, and each class of ranks launches its
// calls in the order in which they happened:
//
//   stage 0   F0 send0 F1 send1 ........ receive0 B0 F2 send2 ..        stage 0: send send receive send ..
//   stage 1      receive0 F0 B0 send0 receive1 ..                       stage 1: receive send receive ..
//
// Orders that are one sequence seen from every rank cannot contradict each other: take the earliest unfinished call of
// the sequence; every member has launched all calls before it. Acts without calls remain free. CheckLive proves it for
// the written plan, whoever ordered it.
#pragma once

#include <cstdint>

#include "compiler/plan/liveness.h"

namespace oneflow {

// The facts of an actor that decide when its acts happen.
struct ActorLoad {
  std::vector<int> classes;  // of the ranks whose queue executes it
  int queue = 0;             // its number
  int priority = 0;          // the highest acts first; ties: the lowest index
  int64_t cost = 1;          // of an act, in the same units for all actors
  bool calls = false;
};

// By class, the acts of one step with calls, in launch order: actors, one entry per act. `loads` is by actor.
// FailedPrecondition, as CheckLive, if the plan could deadlock in any order. REQUIRES: CheckRates is OK.
absl::StatusOr<std::vector<std::vector<int>>> OrderCalls(const WaitGraph& graph, const std::vector<ActorLoad>& loads,
                                                         int num_classes);

}  // namespace oneflow
