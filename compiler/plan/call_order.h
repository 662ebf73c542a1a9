// One order for the calls that ranks make together.
//
// A call blocks its rank's device until all members have made it. Were rank 0 to launch call X before Y and rank 1 Y
// before X, both would wait for ever; with micro-batches in flight, who is ready first is a matter of timing. So the
// order is decided here: one step is played, a call being one act of all its members, and for each class of ranks its
// calls are launched in the order in which they happened:
//
//   stage 0   F0 send0 F1 send1 ........ receive0 B0 F2 send2 ..        stage 0: send send receive send ..
//   stage 1      receive0 F0 B0 send0 receive1 ..                       stage 1: receive send receive ..
//
// Orders that are one sequence seen from every rank cannot contradict each other: of all calls that are waited for,
// every member has launched all that come before the first. Acts without calls remain free. CheckLive proves it for
// the written plan, whoever ordered it.
#pragma once

#include <cstdint>

#include "compiler/plan/liveness.h"

namespace oneflow {

// What of an actor decides when its acts happen.
struct ActorLoad {
  std::vector<int> classes;  // of the ranks whose queue it keeps busy
  int queue = 0;             // a number of that
  int priority = 0;          // the highest goes first; ties: the lowest index
  int64_t cost = 1;          // of an act, in units that are alike for all
  bool calls = false;
};

// By class, the acts of one step that hold calls, in the order in which they are launched: actors, one entry per act.
// `loads` is by actor. FailedPrecondition, as CheckLive, if the plan could deadlock whatever the order. REQUIRES:
// CheckRates is OK.
absl::StatusOr<std::vector<std::vector<int>>> OrderCalls(const WaitGraph& graph, const std::vector<ActorLoad>& loads,
                                                         int num_classes);

}  // namespace oneflow
