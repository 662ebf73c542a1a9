// What was measured in one round of one case, and how rounds become one figure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/job/median.h"

namespace oneflow {

// Per step, over all processes of the case.
struct Counters {
  double cpu_seconds = 0;
  double run_seconds = 0;            // summed over ranks, like the next two
  double kernel_seconds = 0;         // inside instructions that compute
  double idle_seconds = 0;           // asleep for want of messages
  double communication_seconds = 0;  // inside boxings
  double acts = 0;
  double bytes_moved = 0;
  double register_bytes = 0;    // held, not per step
  double peak_bytes = 0;        // of the processes' memory, not per step
  std::vector<pb::OpTime> ops;  // by name; empty without a profile
};

struct Round {
  double step_seconds = 0;             // median of the measured steps
  Counters counters;                   // of PyTorch only cpu_seconds and peak_bytes
  std::vector<double> losses;          // of all steps, from the first
  std::vector<double> learning_rates;  // as losses
};

struct Summary {
  double median = 0;
  double least = 0;
  double most = 0;
};
Summary Summarize(const std::vector<double>& values);

// The median and extremes of a number of each round, which `value` gives: a member, or a function of the round.
template <typename Rounds, typename Value>
Summary SummaryOf(const Rounds& rounds, const Value& value, double unit = 1) {
  std::vector<double> values;
  for (const auto& round : rounds) values.push_back(unit * std::invoke(value, round));
  return Summarize(values);
}

// A round from the events of a job whose last two phases are warm-up and measured steps. The time of a step is the time
// between its loss and the one before; the first has none, unless it is the only one. Internal if the job did not
// report what it must.
absl::StatusOr<Round> RoundFromEvents(absl::Span<const pb::JobEvent> events, const pb::JobSpec& spec);

// The mean of the only value that a job fetches when it evaluates. Internal if it did not.
absl::StatusOr<double> MeanOfEvaluation(absl::Span<const pb::JobEvent> events);

}  // namespace oneflow
