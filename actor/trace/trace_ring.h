// The last acts of one actor thread, in memory of fixed size: when there is no more room, the oldest go.
//
//   ready ──────► begin ──────► end         one record per act, 64 bytes
//     └ its last wait
//
// Only its thread writes, without a lock and without allocating; an act costs two reads of the clock. Others read while
// the thread does not act: between runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "actor/actor.h"
#include "proto/trace.pb.h"

namespace oneflow {

// Since when an act may begin, and its last wait until then.
struct Readiness {
  pb::Cause cause = pb::ITSELF;
  int32_t register_id = -1;  // FILLED, FREED
  int64_t ns = 0;            // 0: since the thread's last act ended
};

// Times are in nanoseconds of the steady clock.
struct TracedAct {
  int64_t ready_ns = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t step = 0;
  int64_t act = 0;           // of the actor in this run, from 0
  int32_t run = 0;           // from 1
  int32_t plan = 0;          // index
  int32_t actor = 0;         // index in the program
  int32_t register_id = -1;  // likewise
  pb::Cause cause = pb::START;

  bool operator==(const TracedAct&) const = default;
};

class TraceRing {
 public:
  // Allocates this much memory, and at least room for one act.
  explicit TraceRing(int64_t num_bytes);

  static int64_t Now();

  // The actor thread's. Runs are counted.
  void BeginRun(int64_t first_step) {
    ++run_;
    first_step_ = first_step;
    end_ns_ = Now();
  }
  // `why`, with its time.
  Readiness Ready(Readiness why) const {
    if (why.ns == 0) why.ns = end_ns_;
    return why;
  }
  void BeginAct() { begin_ns_ = Now(); }
  // Before the actor's state machine goes on to its next act.
  void EndAct(const Actor& actor, const Readiness& why);

  // The number of recorded acts, and how many of these were lost.
  int64_t recorded() const { return recorded_; }
  int64_t lost() const { return recorded_ - static_cast<int64_t>(size()); }
  // The number of acts that are here, and the i-th of them, the oldest first.
  size_t size() const { return std::min(static_cast<size_t>(recorded_), acts_.size()); }
  const TracedAct& operator[](size_t i) const { return acts_[(next_ + acts_.size() - size() + i) % acts_.size()]; }

 private:
  std::vector<TracedAct> acts_;
  size_t next_ = 0;  // the next to be overwritten
  int64_t recorded_ = 0;
  int32_t run_ = 0;
  int64_t first_step_ = 0;
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;  // of the last act, or when the run began
};

}  // namespace oneflow
