#include "tools/planner/credits.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/plan_places.h"
#include "compiler/lower/wait_graph.h"
#include "compiler/plan/solve_credits.h"

namespace oneflow {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Which plan of the trace it is.
absl::StatusOr<int> PlanInTrace(const Trace& trace, const std::string& name) {
  for (int p = 0; p < trace.head.program().plans_size(); ++p) {
    if (trace.head.program().plans(p).name() == name) return p;
  }
  return absl::InvalidArgumentError(absl::StrCat("the trace has no plan '", name, "'"));
}

// The largest median of its ranks, by the actor's name.
std::map<std::string, double> SecondsByName(const Trace& trace, int plan) {
  std::map<int, std::vector<double>> by_instance;
  for (const TracedAct& act : trace.acts) {
    if (act.plan == plan) by_instance[act.actor].push_back(1e-9 * static_cast<double>(act.end_ns - act.begin_ns));
  }
  std::map<std::string, double> seconds;
  for (auto& [instance, values] : by_instance) {
    double& most = seconds[trace.head.program().plans(plan).actors(instance).name()];
    most = std::max(most, Median(std::move(values)));
  }
  return seconds;
}

struct QueueOfClass {
  int rank_class = 0;
  int queue = 0;
};

// The queues that have anything to do, and by index their actors.
std::vector<std::pair<QueueOfClass, std::vector<int>>> QueuesOf(const PlanReader& reader, const pb::ClassPlan& plan) {
  std::map<std::pair<int, int>, std::vector<int>> actors;
  for (int a = 0; a < plan.actors_size(); ++a) {
    const pb::ClassActor& actor = plan.actors(a);
    std::vector<int> classes = ClassesOn(reader, actor.grid());
    if (actor.senders() >= 0) {
      const std::vector<int> senders = ClassesOn(reader, actor.senders());
      classes.insert(classes.end(), senders.begin(), senders.end());
    }
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    for (const int c : classes) actors[{c, actor.queue()}].push_back(a);
  }
  std::vector<std::pair<QueueOfClass, std::vector<int>>> queues;
  for (auto& [of, acts] : actors) queues.push_back({{of.first, of.second}, std::move(acts)});
  return queues;
}

// What keeps steps from being shorter.
std::string BoundText(const pb::PlanSet& set, const PlanReader& reader, const pb::ClassPlan& plan,
                      const WaitGraph& graph, const ActTimes& times, const Period& period) {
  if (period.queue < 0) return PeriodText(graph, times, period);
  const QueueOfClass of = QueuesOf(reader, plan)[period.queue].first;
  return absl::StrFormat(
      "%.4g ms a step\n  the %s queue of ranks of class %d, the first of which is %d, is never idle\n",
      period.seconds * 1e3, absl::AsciiStrToLower(pb::Queue_Name(static_cast<pb::Queue>(of.queue))), of.rank_class,
      set.classes(of.rank_class).ranks(0));
}

std::string Gain(double before, double after) { return absl::StrFormat("%+.0f%%", (before / after - 1) * 100); }

std::string SolvedText(const pb::ClassPlan& plan, const SolvedCredits& solved) {
  int64_t bytes = 0, bytes_after = 0;
  std::string changes;
  for (int r = 0; r < plan.registers_size(); ++r) {
    const pb::ClassRegister& reg = plan.registers(r);
    bytes += reg.slot_bytes() * reg.slots();
    bytes_after += reg.slot_bytes() * solved.slots[r];
    if (reg.slots() == solved.slots[r]) continue;
    absl::StrAppend(&changes, "  '", reg.name(), "' from ", reg.slots(), " to ", solved.slots[r], ", ",
                    reg.slot_bytes(), " bytes each\n");
  }
  std::string text = absl::StrFormat("best of all: %.4g ms a step (%s throughput); the fewest slots that reach it",
                                     solved.after.seconds * 1e3, Gain(solved.before.seconds, solved.after.seconds));
  if (changes.empty()) return text + " are those of the plan\n";
  return absl::StrCat(text, " take ", bytes_after, " bytes instead of ", bytes, "\n", changes);
}

}  // namespace

absl::StatusOr<ActTimes> MeasuredTimes(const pb::PlanSet& set, const pb::ClassPlan& plan, const Trace& trace) {
  OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(set));
  OF_ASSIGN_OR_RETURN(const std::string bytes, SerializePlan(set));
  if (const std::string hash = PlanHash(bytes); trace.head.program().plan_hash() != hash) {
    return absl::InvalidArgumentError(absl::StrCat("the trace is of another plan: its sha256 is ",
                                                   trace.head.program().plan_hash(), ", this one's is ", hash));
  }
  OF_ASSIGN_OR_RETURN(const int traced, PlanInTrace(trace, plan.name()));
  const std::map<std::string, double> seconds = SecondsByName(trace, traced);
  ActTimes times;
  for (const pb::ClassActor& actor : plan.actors()) {
    const auto it = seconds.find(actor.name());
    if (it == seconds.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the trace has no act of actor '", actor.name(), "' of plan '", plan.name(), "'"));
    }
    times.seconds.push_back(it->second);
  }
  for (auto& [of, actors] : QueuesOf(reader, plan)) times.queues.push_back(std::move(actors));
  return times;
}

absl::StatusOr<std::string> CreditsText(const pb::PlanSet& set, const pb::ClassPlan& plan, const ActTimes& times) {
  OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(set));
  OF_ASSIGN_OR_RETURN(const WaitGraph graph, WaitGraphOf(plan));
  std::vector<int64_t> slot_bytes;
  for (const pb::ClassRegister& reg : plan.registers())
    slot_bytes.push_back(reg.variable() >= 0 ? -1 : reg.slot_bytes());
  const SolvedCredits solved = SolveCredits(graph, times, slot_bytes);
  std::string text = absl::StrCat("plan '", plan.name(),
                                  "' with its slots: ", BoundText(set, reader, plan, graph, times, solved.before));
  for (const WhatIf& what_if : WhatIfOneSlotMore(graph, times, solved.before)) {
    absl::StrAppend(&text, "one more: ", WhatIfText(graph, solved.before, what_if), "\n");
  }
  absl::StrAppend(&text, SolvedText(plan, solved));
  return text;
}

}  // namespace oneflow
