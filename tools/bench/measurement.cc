#include "tools/bench/measurement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Adds what a worker counted from `before` to `after`, per step.
void AddDifference(const pb::WorkerStats& before, const pb::WorkerStats& after, double steps, Counters& sum,
                   std::map<std::string, pb::OpTime>& ops) {
  sum.cpu_seconds += (after.cpu_seconds() - before.cpu_seconds()) / steps;
  sum.run_seconds += (after.run_seconds() - before.run_seconds()) / steps;
  sum.kernel_seconds += (after.kernel_seconds() - before.kernel_seconds()) / steps;
  sum.idle_seconds += (after.idle_seconds() - before.idle_seconds()) / steps;
  sum.communication_seconds += (after.communication_seconds() - before.communication_seconds()) / steps;
  sum.acts += static_cast<double>(after.acts() - before.acts()) / steps;
  sum.bytes_moved += static_cast<double>(after.bytes_moved() - before.bytes_moved()) / steps;
  sum.register_bytes += static_cast<double>(after.register_bytes());
  sum.peak_bytes += static_cast<double>(after.peak_bytes());
  const auto add = [&](const pb::WorkerStats& stats, int sign) {
    for (const pb::OpTime& time : stats.ops()) {
      pb::OpTime& op = ops[time.op()];
      op.set_op(time.op());
      op.set_calls(op.calls() + sign * time.calls());
      op.set_seconds(op.seconds() + sign * time.seconds() / steps);
    }
  };
  add(after, 1);
  add(before, -1);
}

// The values of the training plan by step; empty where some step has none.
std::vector<double> ValuesOf(absl::Span<const pb::JobEvent> events, const std::string& name) {
  std::map<int64_t, double> by_step;
  for (const pb::JobEvent& event : events) {
    const pb::FetchedValue& value = event.fetched();
    if (event.has_fetched() && value.plan() == "train" && value.name() == name && value.values_size() == 1) {
      by_step[value.step()] = value.values(0);
    }
  }
  std::vector<double> values;
  for (const auto& [step, value] : by_step) {
    if (step != static_cast<int64_t>(values.size())) return {};
    values.push_back(value);
  }
  return values;
}

std::map<int64_t, int64_t> TimesOfLosses(absl::Span<const pb::JobEvent> events) {
  std::map<int64_t, int64_t> times_us;
  for (const pb::JobEvent& event : events) {
    const pb::FetchedValue& value = event.fetched();
    if (event.has_fetched() && value.plan() == "train" && value.name() == "loss") {
      times_us[value.step()] = event.time_us();
    }
  }
  return times_us;
}

// The median time from one loss to the next within steps [first, first + count). A single step is timed from the loss
// before it, which belongs to another phase.
absl::StatusOr<double> MedianStep(absl::Span<const pb::JobEvent> events, int64_t first, int64_t count) {
  const std::map<int64_t, int64_t> times_us = TimesOfLosses(events);
  std::vector<double> seconds;
  for (int64_t step = count > 1 ? first + 1 : first; step < first + count; ++step) {
    const auto before = times_us.find(step - 1), after = times_us.find(step);
    if (before == times_us.end() || after == times_us.end()) {
      return absl::InternalError(absl::StrCat("there is no loss of step ", step - 1, " or ", step));
    }
    seconds.push_back(1e-6 * static_cast<double>(after->second - before->second));
  }
  if (seconds.empty()) return absl::InternalError(absl::StrCat(count, " steps are too few to time one"));
  return Median(std::move(seconds));
}

}  // namespace

Summary Summarize(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {Median(values), *least, *most};
}

absl::StatusOr<Round> RoundFromEvents(absl::Span<const pb::JobEvent> events, const pb::JobSpec& spec) {
  const int measured = spec.phases_size() - 1;
  const pb::RunPlan& run = spec.phases(measured).run();
  Round round;
  OF_ASSIGN_OR_RETURN(round.step_seconds, MedianStep(events, run.first_step(), run.steps()));
  round.losses = ValuesOf(events, "loss");
  round.learning_rates = ValuesOf(events, "lr");

  std::map<int, pb::WorkerStats> before, after;  // by process
  for (const pb::JobEvent& event : events) {
    if (!event.has_stats()) continue;
    if (event.stats().part() == measured - 1) before[event.stats().process()] = event.stats().stats();
    if (event.stats().part() == measured) after[event.stats().process()] = event.stats().stats();
  }
  if (static_cast<int>(before.size()) != spec.processes() || static_cast<int>(after.size()) != spec.processes()) {
    return absl::InternalError(absl::StrCat(before.size(), " and ", after.size(),
                                            " workers have told what they counted, not ", spec.processes()));
  }
  std::map<std::string, pb::OpTime> ops;
  for (const auto& [process, stats] : after) {
    AddDifference(before[process], stats, static_cast<double>(run.steps()), round.counters, ops);
  }
  for (auto& [name, op] : ops) round.counters.ops.push_back(std::move(op));
  return round;
}

absl::StatusOr<double> MeanOfEvaluation(absl::Span<const pb::JobEvent> events) {
  double sum = 0;
  int batches = 0;
  for (const pb::JobEvent& event : events) {
    if (event.fetched().plan() != "evaluate") continue;
    sum += event.fetched().values(0);
    ++batches;
  }
  if (batches == 0) return absl::InternalError("there is no value of an evaluation");
  return sum / batches;
}

}  // namespace oneflow
