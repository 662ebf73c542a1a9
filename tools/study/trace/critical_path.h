// What a step had to wait for: the chain of acts that ends with the last one, walked back. Before every act comes the
// one that let it begin: the one that filled or freed what it waited for last, or, if it was ready by then, the one
// before it on its queue.
//
//   rank 0  ▓ forward ▓─╮                                time of an edge: from the begin of the act that it comes from
//   rank 1              ╰▓ copy ▓─▓ forward ▓            to the begin of that which it goes to
//                        └ edge ─┘
//
// So the edges' times add up to the whole, but for the last act.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "actor/trace/trace.h"
#include "tools/study/trace/steps.h"

namespace oneflow {

// What one actor waits for another by.
struct TraceEdge {
  pb::Cause cause = pb::ITSELF;  // START: the order of the queue, because it was busy
  int32_t register_id = -1;      // FILLED, FREED
  int32_t from = 0;              // actors
  int32_t to = 0;

  auto operator<=>(const TraceEdge&) const = default;
};

// All in nanoseconds.
struct CriticalPath {
  struct EdgeTime {
    int64_t total = 0;
    int64_t on_the_way = 0;  // of it, after the end of the act that it comes from
    // Of it, by run and step of the act that it goes to: how much it varies.
    std::map<std::pair<int32_t, int64_t>, int64_t> steps;
  };
  std::map<int32_t, int64_t> actors;
  std::map<TraceEdge, EdgeTime> edges;
  int64_t on_the_way = 0;
  int64_t total = 0;
};

// Summed over all windows.
CriticalPath FindCriticalPath(const Trace& trace, const TraceSteps& steps);

}  // namespace oneflow
