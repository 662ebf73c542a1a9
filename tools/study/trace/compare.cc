#include "tools/study/trace/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/job/median.h"

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

// What an edge is on whatever rank: why, along which register, from which actor to which.
using EdgeName = std::tuple<pb::Cause, std::string, std::string, std::string>;
struct EdgesAlike {
  TraceEdge largest;
  int64_t largest_ns = -1, total_ns = 0;
  std::map<std::pair<int32_t, int64_t>, int64_t> steps;
};

std::map<EdgeName, EdgesAlike> AlikeEdges(const Trace& trace, const TraceSummary& summary) {
  const pb::Plan& plan = trace.head.program().plans(summary.steps.plan);
  std::map<EdgeName, EdgesAlike> alike;
  for (const auto& [edge, time] : summary.path.edges) {
    const std::string reg = edge.register_id < 0 ? "" : plan.registers(edge.register_id).name();
    EdgesAlike& to = alike[{edge.cause, reg, plan.actors(edge.from).name(), plan.actors(edge.to).name()}];
    if (time.total > to.largest_ns) to.largest = edge, to.largest_ns = time.total;
    to.total_ns += time.total;
    for (const auto& [step, ns] : time.steps) to.steps[step] += ns;
  }
  return alike;
}

// Two standard errors of the mean over steps of what one takes more than the other, in seconds.
double NoiseBetween(const EdgesAlike& a, const EdgesAlike& b, int64_t num_steps) {
  std::map<std::pair<int32_t, int64_t>, double> differences;
  for (const auto& [step, ns] : a.steps) differences[step] += static_cast<double>(ns);
  for (const auto& [step, ns] : b.steps) differences[step] -= static_cast<double>(ns);
  const double n = static_cast<double>(std::max<int64_t>(2, num_steps));
  const double mean = static_cast<double>(a.total_ns - b.total_ns) / n;
  double squares = std::max(0.0, n - static_cast<double>(differences.size())) * mean * mean;  // steps without either
  for (const auto& [step, ns] : differences) squares += (ns - mean) * (ns - mean);
  return 2e-9 * std::sqrt(squares / (n - 1) / n);
}

void FindBottlenecks(const Trace* traces[2], const TraceSummary* summaries[2], TraceComparison& result) {
  std::map<EdgeName, EdgesAlike> edges[2];
  EdgeName most[2];
  for (int i = 0; i < 2; ++i) {
    edges[i] = AlikeEdges(*traces[i], *summaries[i]);
    const auto top = std::max_element(edges[i].begin(), edges[i].end(), [](const auto& a, const auto& b) {
      return a.second.total_ns < b.second.total_ns;
    });
    if (top != edges[i].end()) most[i] = top->first;
  }
  using Sameness = TraceComparison::Sameness;
  if (most[0] == most[1]) {
    result.sameness = Sameness::kEdge;
  } else if (std::get<2>(most[0]) == std::get<2>(most[1])) {
    result.sameness = Sameness::kAct;
  }
  for (int i = 0; i < 2; ++i) {
    Bottleneck& to = result.bottlenecks[i];
    if (edges[i].empty()) {
      to.text = "none";
      continue;
    }
    const int64_t steps = summaries[i]->steps.num_steps();
    const EdgesAlike &own = edges[i].at(most[i]), &other = edges[i][most[1 - i]];
    to.text = EdgeText(*traces[i], result.plan, own.largest);
    to.seconds = 1e-9 * static_cast<double>(own.total_ns) / static_cast<double>(steps);
    to.rival = 1e-9 * static_cast<double>(other.total_ns) / static_cast<double>(steps);
    to.noise = NoiseBetween(own, other, steps);
    if (!result.same_bottleneck() && to.seconds - to.rival <= to.noise) result.sameness = Sameness::kNoise;
  }
}

std::string BottleneckText(const TraceComparison& comparison) {
  using Sameness = TraceComparison::Sameness;
  const Bottleneck &a = comparison.bottlenecks[0], &b = comparison.bottlenecks[1];
  std::string text = absl::StrFormat("bottleneck: %s: %.3f ms\n", a.text, 1e3 * a.seconds);
  if (comparison.sameness == Sameness::kEdge) {
    return absl::StrCat(text, absl::StrFormat("       and: the same: %.3f ms\n", 1e3 * b.seconds));
  }
  absl::StrAppendFormat(&text, "       and: %s: %.3f ms\n", b.text, 1e3 * b.seconds);
  if (comparison.sameness == Sameness::kAct) absl::StrAppend(&text, "       which leave the same act\n");
  for (const Bottleneck* one : {&a, &b}) {
    if (comparison.sameness != Sameness::kNoise || one->seconds - one->rival > one->noise) continue;
    absl::StrAppendFormat(&text, "       in the %s the two take %.3f and %.3f ms, which steps leave open (+-%.3f ms)\n",
                          one == &a ? "first" : "second", 1e3 * one->seconds, 1e3 * one->rival, 1e3 * one->noise);
  }
  return text;
}

}  // namespace

absl::StatusOr<TraceComparison> CompareTraces(const Trace& a, const TraceSummary& summary_a, const Trace& b,
                                              const TraceSummary& summary_b) {
  OF_RETURN_IF_ERROR(CheckSamePlan(a, summary_a, b, summary_b));
  TraceComparison result{.plan = summary_a.steps.plan,
                         .step_seconds = {summary_a.steps.median_seconds(), summary_b.steps.median_seconds()}};
  const Trace* traces[2] = {&a, &b};
  const TraceSummary* summaries[2] = {&summary_a, &summary_b};
  FindBottlenecks(traces, summaries, result);
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

std::string ComparisonText(const Trace& a, const TraceComparison& comparison, int rows) {
  const auto ratio = [](double x, double y) { return x > 0 ? absl::StrFormat("%+.1f%%", 100 * (y / x - 1)) : "-"; };
  const pb::Plan& plan = a.head.program().plans(comparison.plan);
  std::string text = absl::StrFormat("job '%s', plan '%s'\n", a.head.program().job(), plan.name());
  absl::StrAppendFormat(&text, "step: %.3f ms and %.3f ms median (%s)\n", 1e3 * comparison.step_seconds[0],
                        1e3 * comparison.step_seconds[1],
                        ratio(comparison.step_seconds[0], comparison.step_seconds[1]));
  absl::StrAppend(&text, BottleneckText(comparison));
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
