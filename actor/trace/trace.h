// A whole trace in memory: the records of all processes, on one clock that begins with it, and the relations between
// acts.
//
//   act of the producer ──filled──► act of the consumer        the cause of an act follows from its numbers: slots go
//                       ◄──freed──                             round, so every act uses the next one
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "actor/trace/trace_ring.h"
#include "oneflow_core/status.h"
#include "proto/trace.pb.h"

namespace oneflow {

struct Trace {
  pb::TraceHead head;           // of the whole job; ports, registers and acts name actors and registers by index
  std::vector<TracedAct> acts;  // by begin, then by run, plan, actor, act

  const pb::Plan& PlanOf(const TracedAct& act) const { return head.program().plans(act.plan); }
  const pb::Actor& ActorOf(const TracedAct& act) const { return PlanOf(act).actors(act.actor); }
};

// InvalidArgument with both values if the act is of no actor or register of this head, or its numbers make no sense.
absl::Status CheckTracedAct(const pb::TraceHead& head, const TracedAct& act);

// Puts acts into their order.
void SortActs(std::vector<TracedAct>& acts);

// Finds acts by their numbers.
class ActIndex {
 public:
  // `trace` is borrowed. REQUIRES: head and acts passed their checks.
  explicit ActIndex(const Trace& trace);

  // Null if it is not in the trace.
  const TracedAct* Find(int32_t run, int32_t plan, int32_t actor, int64_t act) const;
  // The act that filled or freed the last slot that this one waited for, or the actor's previous act. If several had to
  // free a slot, the last to end. Null for the other causes, and if it is not in the trace.
  const TracedAct* CauseOf(const TracedAct& act) const;

 private:
  const TracedAct* Filler(const TracedAct& act) const;
  const TracedAct* LastFreer(const TracedAct& act) const;

  const Trace& trace_;
  struct Part {
    uint32_t begin = 0, end = 0;
  };
  std::vector<uint32_t> order_;                                                // of acts, actor by actor, by act
  absl::flat_hash_map<std::tuple<int32_t, int32_t, int32_t>, Part> of_actor_;  // by run, plan, actor: where in order_
};

}  // namespace oneflow
