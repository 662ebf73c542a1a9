// Two traces of one plan side by side: two runs of it, or a run and its simulation.
#pragma once

#include <string>
#include <vector>

#include "tools/study/trace/summary.h"

namespace oneflow {

// An actor's median act in each of the two.
struct ActorComparison {
  int32_t actor = 0;
  double seconds[2] = {};
  int acts_per_step = 1;

  // The second's difference to the first, over all its acts of a step.
  double difference() const { return (seconds[1] - seconds[0]) * acts_per_step; }
};

// What bounds the steps of one of them: what takes most of the critical path; edges that are alike on several ranks are
// one.
struct Bottleneck {
  std::string text;    // as EdgeText, of one of its edges
  double seconds = 0;  // of a step
  double rival = 0;    // what the other trace's bottleneck takes in this one
  double noise = 0;    // of the difference of these two: two standard errors of its mean over steps
};

struct TraceComparison {
  int32_t plan = 0;
  double step_seconds[2] = {};  // medians
  Bottleneck bottlenecks[2];
  // How they are the same, if they are.
  enum class Sameness {
    kOther,
    kEdge,   // the same edge
    kAct,    // edges that leave the same act: who hears of it last differs
    kNoise,  // in one of the two, both take as much as far as steps can tell
  };
  Sameness sameness = Sameness::kOther;
  bool same_bottleneck() const { return sameness != Sameness::kOther; }
  std::vector<ActorComparison> actors;  // that acted in both, the largest difference first
  // Of |second / first - 1| over these actors.
  double median_deviation = 0;
};

// InvalidArgument, with both values, if they are not of the same plan; else as Summarize.
absl::StatusOr<TraceComparison> CompareTraces(const Trace& a, const TraceSummary& summary_a, const Trace& b,
                                              const TraceSummary& summary_b);

// `trace` is either.
std::string ComparisonText(const Trace& trace, const TraceComparison& comparison, int rows);

}  // namespace oneflow
