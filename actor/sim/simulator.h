// Plays a plan on a virtual clock: with the state machines that also run it (actor/actor.h), in the order in which
// threads let them act, and with costs in place of kernels and messages.
//
//   queue of a rank   ▓▓ act ▓▓        ▓▓ act ▓▓       one at a time; of those ready the highest priority, then the
//                       message ╲     ╱ wakes up       lowest id; acts with collectives in the order of the plan
//   another queue                ▓▓▓▓▓
//
// Everything that arrives at one time has arrived before any queue chooses. Messages within a queue take no time.
// Messages between two queues keep their order, except those with data: slots of a register land in their order, as in
// real runs. Members of a collective wait for one another: each occupies its queue from its own begin until all have
// begun and its own time is over.
//
// A link carries one transfer at a time, in the order of arrival, the lowest rank's first among several: a card is
// shared by waiting, which takes as long in sum as sharing its bandwidth. A transfer is part of an act, or comes with
// `filled`: it begins when the slot is full, whatever its reader does meanwhile, and the reader acts when it has
// landed. Data with `filled` takes a link of its sender, too, and begins when both are free: a card sends and receives
// at once, but sends to two readers one after the other.
//
// The result is a function of program and costs alone. The caller provides the costs (a device's speeds, a trace of a
// real run).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "actor/trace/trace.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

struct ActCost {
  int64_t ns = 0;       // its own work
  int64_t link_ns = 0;  // behind that, a transfer
  int64_t link = -1;    // over this link, as what lands for the actor; negative: over one of its own
};

// Missing costs are zero. None may be negative. Acts of an actor are counted from 0.
struct SimulatedCosts {
  std::function<ActCost(int32_t actor, int64_t act)> act;
  // Of a message from an act, between different queues, about a register.
  std::function<int64_t(int32_t from, int64_t act, int32_t to, int32_t register_id)> message_ns;
  // How long the data of such a `filled` message takes the link of its receiver.
  std::function<int64_t(int32_t from, int64_t act, int32_t to, int32_t register_id)> shipment_ns;
  // The link of the sender that it takes as well; negative: none. Links of senders and receivers are numbered apart.
  std::function<int64_t(int32_t from, int32_t to, int32_t register_id)> shipment_link;
  std::function<int64_t(int32_t actor, int64_t act)> wake_ns;   // until an idle queue begins, for this act
  std::function<int64_t(int32_t actor, int64_t act)> pause_ns;  // until a queue goes on behind this act
  // Where some ranks stand for others that are not in the plan (tools/study/sim/played_ranks.h): by rank, its
  // representative; null where all are there. An absent member of a collective has come when its representative has.
  // Messages may stand for those of absent ranks too: then message_ns is asked for all, also within a queue, and
  // decides which come first.
  const std::vector<int>* stands_for = nullptr;
  // The times at which ranks die: no act of theirs begins or ends from then on. Those who wait for them wait for ever.
  std::map<int, int64_t> dies_ns;
};

struct Simulation {
  Trace trace;                        // of one run
  std::vector<int64_t> step_ends_ns;  // when the last act of each step ended
};

// How much is played and recorded.
struct Extent {
  int64_t steps = 1;
  // Stops at the end of a step that takes as long as the one before it, to one part in 100,000. Steps that have begun
  // by then are not recorded. For costs that are the same in every step.
  bool until_steady = false;
  bool keep_acts = true;  // else the trace has none, and a long play needs no more memory than a short one
};

// Enough for queues to fill, and some more.
inline constexpr Extent kUntilSteady{.steps = 8, .until_steady = true};

// Plays some steps of one plan. InvalidArgument if the plan names something that does not exist. FailedPrecondition,
// saying who waits for whom, if it stops before the end. REQUIRES: `program` is that of all processes together; the
// plan is one of it; steps > 0.
absl::StatusOr<Simulation> Simulate(const pb::Program& program, int plan, const Extent& extent,
                                    const SimulatedCosts& costs);
inline absl::StatusOr<Simulation> Simulate(const pb::Program& program, int plan, int64_t steps,
                                           const SimulatedCosts& costs) {
  return Simulate(program, plan, Extent{.steps = steps}, costs);
}

}  // namespace oneflow
