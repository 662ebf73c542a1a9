// Where the time of every queue goes: busy, by actor, or waiting, for what. Whatever a queue is idle for, it waits for
// what its next act waited for last, until that act is ready.
//
//   ▓▓ act ▓▓┄┄┄┄┄┄┄┄┄┄┄┄┄┄╌╌╌▓▓ act ▓▓
//             waits         ready but not begun: its thread wakes up, or has no core
#pragma once

#include <map>
#include <vector>

#include "actor/trace/trace.h"
#include "tools/study/trace/steps.h"

namespace oneflow {

// What a queue was idle for.
struct QueueWait {
  pb::Cause cause = pb::START;  // FILLED: data; FREED: a slot
  int32_t register_id = -1;
  int32_t actor = -1;  // that could not act

  auto operator<=>(const QueueWait&) const = default;
};

// In nanoseconds, summed over all windows; busy, waits, late and rest are all of the queue's time.
struct QueueUse {
  int rank = 0;
  int queue = 0;
  std::map<int32_t, int64_t> busy;  // by actor
  std::map<QueueWait, int64_t> waits;
  int64_t late = 0;       // an act was ready and had not begun
  int64_t rest = 0;       // nothing more to do
  int64_t contended = 0;  // of the busy time, while another act of the queue was ready

  int64_t total_busy() const;
  int64_t waited(pb::Cause cause) const;
  int64_t total() const;
};

// By rank, then by queue; queues that never act in the windows are left out.
std::vector<QueueUse> FindQueueUse(const Trace& trace, const TraceSteps& steps);

}  // namespace oneflow
