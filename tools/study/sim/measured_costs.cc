#include "tools/study/sim/measured_costs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/transport/message_bus.h"
#include "tools/job/median.h"

namespace oneflow {
namespace {

using Samples = std::vector<double>;  // nanoseconds

int64_t MedianNs(const Samples& samples) {
  return samples.empty() ? 0 : std::max<int64_t>(0, static_cast<int64_t>(Median(samples)));
}

// Calls `fn` with every act of the windows and, if there is one, the act before it on its queue, in order of time.
template <typename Fn>
void ForEachAct(const Trace& trace, const TraceSteps& steps, const Fn& fn) {
  std::map<int32_t, const TraceWindow*> windows;  // by run
  for (const TraceWindow& window : steps.windows) windows[window.run] = &window;
  std::map<std::pair<int32_t, int>, const TracedAct*> last;  // by run and queue
  for (const TracedAct& act : trace.acts) {
    const auto window = windows.find(act.run);
    if (act.plan != steps.plan || window == windows.end()) continue;
    const pb::Actor& actor = trace.ActorOf(act);
    const TracedAct*& before = last[{act.run, AddressOf(actor.rank(), actor.queue())}];
    const bool inside = act.end_ns > window->second->begin_ns && act.end_ns <= window->second->end_ns;
    if (inside) fn(act, before);
    before = &act;
  }
}

}  // namespace

MeasuredCosts::Distance MeasuredCosts::Between(int32_t from, int32_t to) const {
  const Where &a = where_[from], &b = where_[to];
  if (a.rank == b.rank) return kRank;
  return a.process == b.process ? kProcess : kOther;
}

absl::StatusOr<MeasuredCosts> MeasuredCosts::Of(const Trace& trace, const TraceSteps& steps,
                                                const pb::Program& program) {
  if (trace.head.program().plan_hash() != program.plan_hash()) {
    return absl::InvalidArgumentError(absl::StrCat("the trace is of another plan: its sha256 is ",
                                                   trace.head.program().plan_hash(), ", this one's is ",
                                                   program.plan_hash()));
  }
  const pb::Plan& plan = program.plans(steps.plan);
  MeasuredCosts costs;
  for (const pb::Actor& actor : plan.actors()) {
    costs.where_.push_back(
        {AddressOf(actor.rank(), actor.queue()), actor.rank(), program.ranks(actor.rank()).process()});
  }
  const std::vector<int64_t> numbers = costs.TakeActs(trace, steps, plan);
  if (costs.num_steps_ == 0) {
    return absl::FailedPreconditionError(absl::StrCat("plan '", plan.name(), "': the trace has no whole step to play"));
  }
  costs.TakeWaits(trace, steps, numbers);
  return costs;
}

std::vector<int64_t> MeasuredCosts::TakeActs(const Trace& trace, const TraceSteps& steps, const pb::Plan& plan) {
  size_t acts_per_step = 0;
  for (const pb::Actor& actor : plan.actors()) acts_per_step += actor.acts_per_step();
  std::map<std::pair<int32_t, int64_t>, std::vector<const TracedAct*>> acts;  // by run and step
  ForEachAct(trace, steps, [&](const TracedAct& act, const TracedAct*) { acts[{act.run, act.step}].push_back(&act); });
  std::vector<int64_t> numbers(trace.acts.size(), -1);
  acts_.resize(plan.actors_size());
  for (auto& [step, of_step] : acts) {
    if (of_step.size() != acts_per_step) continue;
    ++num_steps_;
    std::sort(of_step.begin(), of_step.end(), [](const auto* a, const auto* b) { return a->act < b->act; });
    for (const TracedAct* act : of_step) {
      numbers[act - trace.acts.data()] = static_cast<int64_t>(acts_[act->actor].size());
      acts_[act->actor].push_back({.ns = act->end_ns - act->begin_ns});
    }
  }
  return numbers;
}

void MeasuredCosts::TakeWaits(const Trace& trace, const TraceSteps& steps, const std::vector<int64_t>& numbers) {
  std::array<Samples, kNumDistances> messages;
  std::map<int, Samples> wakes;
  std::vector<Samples> pauses(where_.size());
  const ActIndex index(trace);
  const auto number = [&](const TracedAct& act) { return numbers[&act - trace.acts.data()]; };
  ForEachAct(trace, steps, [&](const TracedAct& act, const TracedAct* before) {
    const int queue = where_[act.actor].queue;
    const TracedAct* cause = index.CauseOf(act);
    if (cause != nullptr && where_[cause->actor].queue != queue) {
      const int64_t ns = std::max<int64_t>(0, act.ready_ns - cause->end_ns);
      messages[Between(cause->actor, act.actor)].push_back(static_cast<double>(ns));
      if (number(*cause) >= 0) message_ns_[{cause->actor, number(*cause), act.actor}] = ns;
    }
    if (before == nullptr) return;
    const int64_t ns = std::max<int64_t>(0, act.begin_ns - std::max(act.ready_ns, before->end_ns));
    if (act.ready_ns > before->end_ns) {
      wakes[queue].push_back(static_cast<double>(ns));
      around_acts_.wake_ns[trace.ActorOf(act).queue()].push_back(static_cast<double>(ns));
      if (number(act) >= 0) acts_[act.actor][number(act)].wake_ns = ns;
    } else {
      pauses[before->actor].push_back(static_cast<double>(ns));
      around_acts_.pause_ns[trace.ActorOf(act).queue()].push_back(static_cast<double>(ns));
      if (number(*before) >= 0) acts_[before->actor][number(*before)].pause_ns = ns;
    }
  });
  for (int d = 0; d < kNumDistances; ++d) usual_message_ns_[d] = MedianNs(messages[d]);
  for (const Where& where : where_) usual_wake_ns_[where.queue] = MedianNs(wakes[where.queue]);
  for (const Samples& samples : pauses) usual_pause_ns_.push_back(MedianNs(samples));
  around_acts_.message_ns = std::move(messages);
}

SimulatedCosts MeasuredCosts::Costs() const {
  SimulatedCosts costs;
  costs.act = [this](int32_t actor, int64_t act) { return ActCost{.ns = ActOf(actor, act).ns}; };
  costs.message_ns = [this](int32_t from, int64_t act, int32_t to, int32_t) {
    const auto seen = message_ns_.find({from, act % static_cast<int64_t>(acts_[from].size()), to});
    return seen != message_ns_.end() ? seen->second : usual_message_ns_[Between(from, to)];
  };
  costs.wake_ns = [this](int32_t actor, int64_t act) {
    const int64_t seen = ActOf(actor, act).wake_ns;
    return seen >= 0 ? seen : usual_wake_ns_.at(where_[actor].queue);
  };
  costs.pause_ns = [this](int32_t actor, int64_t act) {
    const int64_t seen = ActOf(actor, act).pause_ns;
    return seen >= 0 ? seen : usual_pause_ns_[actor];
  };
  return costs;
}

}  // namespace oneflow
