#include "tools/trace/compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/measurement.h"

namespace oneflow {
namespace {

// By actor: the median act of the windows.
std::map<int32_t, double> MedianActs(const Trace& trace, const TraceSteps& steps) {
  std::map<int32_t, const TraceWindow*> windows;
  for (const TraceWindow& window : steps.windows) windows[window.run] = &window;
  std::map<int32_t, std::vector<double>> seconds;
  for (const TracedAct& act : trace.acts) {
    const auto window = windows.find(act.run);
    if (act.plan != steps.plan || window == windows.end()) continue;
    if (act.end_ns <= window->second->begin_ns || act.end_ns > window->second->end_ns) continue;
    seconds[act.actor].push_back(1e-9 * static_cast<double>(act.end_ns - act.begin_ns));
  }
  std::map<int32_t, double> medians;
  for (auto& [actor, all] : seconds) medians[actor] = Median(std::move(all));
  return medians;
}

absl::Status CheckSamePlan(const Trace& a, const TraceSummary& of_a, const Trace& b, const TraceSummary& of_b) {
  const pb::Plan& plan_a = a.head.program().plans(of_a.steps.plan);
  const pb::Plan& plan_b = b.head.program().plans(of_b.steps.plan);
  if (a.head.program().plan_hash() != b.head.program().plan_hash()) {
    return absl::InvalidArgumentError(absl::StrCat("the traces are of different plans: sha256 ",
                                                   a.head.program().plan_hash(), " and ",
                                                   b.head.program().plan_hash()));
  }
  if (plan_a.name() != plan_b.name() || plan_a.actors_size() != plan_b.actors_size()) {
    return absl::InvalidArgumentError(absl::StrCat("plan '", plan_a.name(), "' of ", plan_a.actors_size(),
                                                   " actors is beside '", plan_b.name(), "' of ", plan_b.actors_size(),
                                                   "; --plan says which"));
  }
  return absl::OkStatus();
}

std::string BottleneckText(const Trace& trace, const TraceSummary& summary) {
  const TraceEdge* edge = summary.bottleneck();
  return edge == nullptr ? "none" : EdgeText(trace, summary.steps.plan, *edge);
}

}  // namespace

absl::StatusOr<TraceComparison> CompareTraces(const Trace& a, const TraceSummary& summary_a, const Trace& b,
                                              const TraceSummary& summary_b) {
  OF_RETURN_IF_ERROR(CheckSamePlan(a, summary_a, b, summary_b));
  TraceComparison result{.plan = summary_a.steps.plan,
                         .step_seconds = {summary_a.steps.median_seconds(), summary_b.steps.median_seconds()}};
  const TraceEdge *edge_a = summary_a.bottleneck(), *edge_b = summary_b.bottleneck();
  result.same_bottleneck = edge_a == nullptr || edge_b == nullptr ? edge_a == edge_b : *edge_a == *edge_b;
  const std::map<int32_t, double> medians_b = MedianActs(b, summary_b.steps);
  std::vector<double> deviations;
  for (const auto& [actor, seconds] : MedianActs(a, summary_a.steps)) {
    const auto other = medians_b.find(actor);
    if (other == medians_b.end()) continue;
    result.actors.push_back({.actor = actor,
                             .seconds = {seconds, other->second},
                             .acts_per_step = a.head.program().plans(result.plan).actors(actor).acts_per_step()});
    if (seconds > 0) deviations.push_back(std::abs(other->second / seconds - 1));
  }
  if (!deviations.empty()) result.median_deviation = Median(std::move(deviations));
  std::stable_sort(result.actors.begin(), result.actors.end(),
                   [](const auto& x, const auto& y) { return std::abs(x.difference()) > std::abs(y.difference()); });
  return result;
}

std::string ComparisonText(const Trace& a, const TraceSummary& summary_a, const Trace& b, const TraceSummary& summary_b,
                           const TraceComparison& comparison, int rows) {
  const auto ratio = [](double x, double y) { return x > 0 ? absl::StrFormat("%+.1f%%", 100 * (y / x - 1)) : "-"; };
  const pb::Plan& plan = a.head.program().plans(comparison.plan);
  std::string text = absl::StrFormat("job '%s', plan '%s'\n", a.head.program().job(), plan.name());
  absl::StrAppendFormat(&text, "step: %.3f ms and %.3f ms median (%s)\n", 1e3 * comparison.step_seconds[0],
                        1e3 * comparison.step_seconds[1],
                        ratio(comparison.step_seconds[0], comparison.step_seconds[1]));
  absl::StrAppendFormat(&text, "bottleneck: %s\n", BottleneckText(a, summary_a));
  absl::StrAppendFormat(&text, "       and: %s\n",
                        comparison.same_bottleneck ? "the same" : BottleneckText(b, summary_b));
  absl::StrAppendFormat(&text, "acts: the median one's length differs by %.1f%% in the median of %d actors\n",
                        100 * comparison.median_deviation, comparison.actors.size());
  absl::StrAppendFormat(&text, "\n%12s %12s %8s %12s  largest differences\n", "ms/act", "and", "", "ms/step");
  for (int i = 0; i < std::min<int>(rows, static_cast<int>(comparison.actors.size())); ++i) {
    const ActorComparison& one = comparison.actors[i];
    const pb::Actor& actor = plan.actors(one.actor);
    absl::StrAppendFormat(&text, "%12.4f %12.4f %8s %+12.4f  '%s' on rank %d\n", 1e3 * one.seconds[0],
                          1e3 * one.seconds[1], ratio(one.seconds[0], one.seconds[1]), 1e3 * one.difference(),
                          actor.name(), actor.rank());
  }
  return text;
}

}  // namespace oneflow
