#include "tools/study/trace/steps.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/job/median.h"

namespace oneflow {
namespace {

struct SeenStep {
  int64_t acts = 0;
  int64_t begin_ns = INT64_MAX;
  int64_t end_ns = INT64_MIN;
};
using SeenSteps = std::map<std::pair<int32_t, int64_t>, SeenStep>;  // by run and step

absl::StatusOr<int32_t> ChoosePlan(const Trace& trace, absl::string_view name) {
  const auto& plans = trace.head.program().plans();
  std::vector<int64_t> busy(plans.size(), 0);
  for (const TracedAct& act : trace.acts) busy[act.plan] += act.end_ns - act.begin_ns;
  if (name.empty() && !plans.empty()) {
    return static_cast<int32_t>(std::max_element(busy.begin(), busy.end()) - busy.begin());
  }
  std::vector<std::string> names;
  for (int p = 0; p < plans.size(); ++p) {
    if (plans[p].name() == std::string(name)) return p;
    names.push_back(plans[p].name());
  }
  return absl::NotFoundError(
      absl::StrCat("there is no plan '", std::string(name), "'; there are: ", absl::StrJoin(names, ", ")));
}

SeenSteps StepsOf(const Trace& trace, int32_t plan) {
  SeenSteps steps;
  for (const TracedAct& act : trace.acts) {
    if (act.plan != plan) continue;
    SeenStep& step = steps[{act.run, act.step}];
    ++step.acts;
    step.begin_ns = std::min(step.begin_ns, act.begin_ns);
    step.end_ns = std::max(step.end_ns, act.end_ns);
  }
  return steps;
}

}  // namespace

int64_t TraceSteps::num_steps() const {
  int64_t steps = 0;
  for (const TraceWindow& window : windows) steps += static_cast<int64_t>(window.step_seconds.size());
  return steps;
}

double TraceSteps::seconds() const {
  double seconds = 0;
  for (const TraceWindow& window : windows) seconds += 1e-9 * static_cast<double>(window.end_ns - window.begin_ns);
  return seconds;
}

double TraceSteps::median_seconds() const {
  std::vector<double> all;
  for (const TraceWindow& window : windows) {
    all.insert(all.end(), window.step_seconds.begin(), window.step_seconds.end());
  }
  return Median(std::move(all));
}

absl::StatusOr<TraceSteps> FindSteps(const Trace& trace, absl::string_view plan) {
  TraceSteps found;
  OF_ASSIGN_OR_RETURN(found.plan, ChoosePlan(trace, plan));
  const pb::Plan& chosen = trace.head.program().plans(found.plan);
  int64_t acts_per_step = 0;
  for (const pb::Actor& actor : chosen.actors()) acts_per_step += actor.acts_per_step();
  std::pair<int32_t, int64_t> last(-1, -1);
  bool first_of_window = false;  // the window holds a single step up to now
  for (const auto& [number, step] : StepsOf(trace, found.plan)) {
    ++found.seen;
    if (step.acts != acts_per_step) continue;
    ++found.whole;
    const bool follows = last == std::pair(number.first, number.second - 1);
    last = number;
    if (!follows) {
      if (!found.windows.empty() && found.windows.back().run == number.first) found.windows.pop_back();
      found.windows.push_back({.run = number.first, .begin_ns = step.begin_ns, .end_ns = step.end_ns});
      first_of_window = true;
      continue;
    }
    TraceWindow& window = found.windows.back();
    if (first_of_window) window.begin_ns = window.end_ns;
    first_of_window = false;
    window.step_seconds.push_back(1e-9 * static_cast<double>(step.end_ns - window.end_ns));
    window.end_ns = step.end_ns;
  }
  for (TraceWindow& window : found.windows) {
    if (window.step_seconds.empty()) {
      window.step_seconds.push_back(1e-9 * static_cast<double>(window.end_ns - window.begin_ns));
    }
  }
  if (!found.windows.empty()) return found;
  return absl::FailedPreconditionError(absl::StrCat("no step of plan '", chosen.name(), "' is whole: of ", found.seen,
                                                    " something was lost; more megabytes keep more"));
}

}  // namespace oneflow
