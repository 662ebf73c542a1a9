// Two traces of one plan side by side: two runs of it, or a run and its simulation.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/summary.h"

namespace oneflow {

// An actor's median act in each of the two.
struct ActorComparison {
  int32_t actor = 0;
  double seconds[2] = {};
  int acts_per_step = 1;

  // The second's difference to the first, over all its acts of a step.
  double difference() const { return (seconds[1] - seconds[0]) * acts_per_step; }
};

struct TraceComparison {
  int32_t plan = 0;
  double step_seconds[2] = {};  // medians
  bool same_bottleneck = false;
  std::vector<ActorComparison> actors;  // that acted in both, the largest difference first
  // Of |second / first - 1| over these actors.
  double median_deviation = 0;
};

// InvalidArgument, with both values, if they are not of the same plan; else as Summarize.
absl::StatusOr<TraceComparison> CompareTraces(const Trace& a, const TraceSummary& summary_a, const Trace& b,
                                              const TraceSummary& summary_b);

std::string ComparisonText(const Trace& a, const TraceSummary& summary_a, const Trace& b, const TraceSummary& summary_b,
                           const TraceComparison& comparison, int rows);

}  // namespace oneflow
