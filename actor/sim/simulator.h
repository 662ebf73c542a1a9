// Plays a plan on a virtual clock: the very state machines that run it (actor/actor.h), the very order in which threads
// let them act, and costs in place of kernels and messages.
//
//   queue of a rank   ▓▓ act ▓▓        ▓▓ act ▓▓       one at a time; of those ready the highest priority, then the
//                       message ╲     ╱ wakes up       lowest id; acts with collectives in the order of the plan
//   another queue                ▓▓▓▓▓
//
// What comes at the same time has come before anyone chooses. Messages within a queue take no time, and none overtakes
// another between the same two queues but those with which something comes, as they do where programs run: slots of a
// register land in their order, and that is all. Members of a collective wait for one another: each has its queue from
// when it begins until all have begun and its own time is over. A link carries one transfer at a time, in the order in
// which they come to it, of several at once the lowest rank's first: whoever shares a card waits, which takes as long
// in sum as sharing its bandwidth. A transfer is part of an act, or comes with `filled`: from when the slot is full,
// whatever its reader does meanwhile, who acts when it has landed. What comes with `filled` takes a link of its sender,
// too, and begins when both are free: a card sends and receives at once, but sends to two readers one after the other.
//
// The result is a function of program and costs alone. Whose costs these are (a device's speeds, a trace of a real run)
// is the caller's business.
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

// What is not given costs nothing. None may be negative. Acts of an actor are counted from 0.
struct SimulatedCosts {
  std::function<ActCost(int32_t actor, int64_t act)> act;
  // Of an act, between different queues, about a register.
  std::function<int64_t(int32_t from, int64_t act, int32_t to, int32_t register_id)> message_ns;
  // For how long what comes with such a message, if it says `filled`, takes the link of its receiver.
  std::function<int64_t(int32_t from, int64_t act, int32_t to, int32_t register_id)> shipment_ns;
  // The link of the sender that this takes as well; negative: none. Links of senders and receivers are numbered apart.
  std::function<int64_t(int32_t from, int32_t to, int32_t register_id)> shipment_link;
  std::function<int64_t(int32_t actor, int64_t act)> wake_ns;   // until a queue that was idle begins, for this act
  std::function<int64_t(int32_t actor, int64_t act)> pause_ns;  // until a queue goes on behind this act
  // Where some ranks stand for others, that are not in the plan (tools/study/sim/played_ranks.h): by rank, who stands
  // for it; null where all are there. A member of a collective that is not there has come when who stands for it has.
  // Messages may stand for those of ranks that are not there too, so that message_ns is asked of all, also within a
  // queue, and says itself which come first.
  const std::vector<int>* stands_for = nullptr;
  // When ranks die: no act of theirs begins or ends from then on. Who waits for them waits for ever.
  std::map<int, int64_t> dies_ns;
};

struct Simulation {
  Trace trace;                        // of one run
  std::vector<int64_t> step_ends_ns;  // when the last act of each step ended
};

// How much is played, and told.
struct Extent {
  int64_t steps = 1;
  // No further than to the end of a step that takes as long as the one before it, to one part in 100,000. Of steps that
  // have begun by then nothing is told. For costs that are the same in every step.
  bool until_steady = false;
  bool keep_acts = true;  // else the trace has none, and a long play needs no more memory than a short one
};

// Enough for queues to fill, and some more.
inline constexpr Extent kUntilSteady{.steps = 8, .until_steady = true};

// Plays some steps of one plan. InvalidArgument if the plan names what is not there. FailedPrecondition, saying who
// waits for whom, if it comes to a stop before the end. REQUIRES: `program` is that of all processes together; the plan
// is one of it; steps > 0.
absl::StatusOr<Simulation> Simulate(const pb::Program& program, int plan, const Extent& extent,
                                    const SimulatedCosts& costs);
inline absl::StatusOr<Simulation> Simulate(const pb::Program& program, int plan, int64_t steps,
                                           const SimulatedCosts& costs) {
  return Simulate(program, plan, Extent{.steps = steps}, costs);
}

}  // namespace oneflow
