#include "tools/study/planner/credits.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/plan_places.h"
#include "compiler/lower/wait_graph.h"
#include "compiler/plan/solve_credits.h"
#include "oneflow_core/queues.h"
#include "tools/job/act_times.h"

namespace oneflow {
namespace {

// Which plan of the trace it is.
absl::StatusOr<int> PlanInTrace(const Trace& trace, const std::string& name) {
  for (int p = 0; p < trace.head.program().plans_size(); ++p) {
    if (trace.head.program().plans(p).name() == name) return p;
  }
  return absl::InvalidArgumentError(absl::StrCat("the trace has no plan '", name, "'"));
}

// The largest median of its ranks, by the actor's name.
absl::StatusOr<std::map<std::string, double>> SecondsByName(const Trace& trace, int plan) {
  OF_ASSIGN_OR_RETURN(const auto medians, MedianSeconds(trace, plan));
  std::map<std::string, double> seconds;
  for (const auto& [instance, median] : medians) {
    double& most = seconds[trace.head.program().plans(plan).actors(instance).name()];
    most = std::max(most, median);
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
      period.seconds * 1e3, QueueName(of.queue), of.rank_class, set.classes(of.rank_class).ranks(0));
}

std::string Gain(double before, double after) { return absl::StrFormat("%+.0f%%", (before / after - 1) * 100); }

std::string GoalText(const CreditGoal& goal) {
  if (goal.seconds > 0) return absl::StrFormat("asked for %.4g ms a step", goal.seconds * 1e3);
  if (goal.most_bytes > 0) return absl::StrFormat("best with slots of %d bytes on a device", goal.most_bytes);
  return "best of all";
}

std::string SolvedText(const pb::ClassPlan& plan, const SlotBytes& bytes, const CreditGoal& goal,
                       const SolvedCredits& solved) {
  std::vector<int> slots;
  std::string changes;
  for (int r = 0; r < plan.registers_size(); ++r) {
    const pb::ClassRegister& reg = plan.registers(r);
    slots.push_back(reg.slots());
    if (reg.slots() == solved.slots[r]) continue;
    absl::StrAppend(&changes, "  '", reg.name(), "' from ", reg.slots(), " to ", solved.slots[r], ", ",
                    reg.slot_bytes(), " bytes each\n");
  }
  std::string text =
      absl::StrFormat("%s: %.4g ms a step (%s throughput); the fewest slots that reach it", GoalText(goal),
                      solved.after.seconds * 1e3, Gain(solved.before.seconds, solved.after.seconds));
  if (changes.empty()) return text + " are those of the plan\n";
  return absl::StrCat(text, " take ", bytes.Most(solved.slots), " bytes on a device instead of ", bytes.Most(slots),
                      "\n", changes);
}

SlotBytes BytesOfSlots(const PlanReader& reader, const pb::ClassPlan& plan) {
  SlotBytes bytes;
  for (const pb::ClassRegister& reg : plan.registers()) {
    bytes.of_one.push_back(reg.variable() >= 0 ? -1 : reg.slot_stride());
    bytes.devices.push_back(ClassesOn(reader, reg.grid()));
  }
  return bytes;
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
  OF_ASSIGN_OR_RETURN(const auto seconds, SecondsByName(trace, traced));
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

absl::StatusOr<CreditsAnswer> AnswerCredits(const pb::PlanSet& set, const pb::ClassPlan& plan, const ActTimes& times,
                                            const CreditGoal& goal) {
  OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(set));
  OF_ASSIGN_OR_RETURN(const WaitGraph graph, WaitGraphOf(plan));
  const SlotBytes bytes = BytesOfSlots(reader, plan);
  OF_ASSIGN_OR_RETURN_AT(const SolvedCredits solved, SolveCredits(graph, times, bytes, goal),
                         absl::StrCat("plan '", plan.name(), "'"));
  CreditsAnswer answer;
  answer.text = absl::StrCat("plan '", plan.name(),
                             "' with its slots: ", BoundText(set, reader, plan, graph, times, solved.before));
  for (const WhatIf& what_if : WhatIfOneSlotMore(graph, times, solved.before)) {
    absl::StrAppend(&answer.text, "one more: ", WhatIfText(graph, solved.before, what_if), "\n");
  }
  absl::StrAppend(&answer.text, SolvedText(plan, bytes, goal, solved));
  for (int r = 0; r < plan.registers_size(); ++r) {
    if (bytes.of_one[r] >= 0 && plan.registers(r).initially_filled() == 0)
      answer.slots[plan.registers(r).name()] = solved.slots[r];
  }
  return answer;
}

}  // namespace oneflow
