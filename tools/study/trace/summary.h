// What a trace says, in figures and for people: how long a step takes, what bounds it, and what every queue does
// meanwhile.
#pragma once

#include <string>
#include <vector>

#include "actor/trace/trace.h"
#include "tools/study/trace/critical_path.h"
#include "tools/study/trace/queue_use.h"
#include "tools/study/trace/steps.h"

namespace oneflow {

struct TraceSummary {
  TraceSteps steps;
  CriticalPath path;
  std::vector<QueueUse> queues;
  int64_t lost_acts = 0;
  int64_t clock_error_ns = 0;  // at most, between any two processes

  // The edge that takes most of the critical path; null if it has none.
  const TraceEdge* bottleneck() const;
};

// Of the plan of that name, or of the one that acts for longest if it is empty. Errors as FindSteps.
absl::StatusOr<TraceSummary> Summarize(const Trace& trace, absl::string_view plan);

// "register 'h1/out' from 'forward.2' on rank 0 to 'boxing.3' on rank 1".
std::string EdgeText(const Trace& trace, int32_t plan, const TraceEdge& edge);

struct TraceTextOptions {
  int rows = 8;   // of every table
  int rank = -1;  // only this rank's queues, and all that is known of them; negative: all
};
std::string SummaryText(const Trace& trace, const TraceSummary& summary, const TraceTextOptions& options);

}  // namespace oneflow
