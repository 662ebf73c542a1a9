#include "tools/trace/step_division.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

class Divider {
 public:
  Divider(const Trace& trace, const TraceSteps& steps) : trace_(trace), index_(trace), before_(trace.acts.size()) {
    for (const TraceWindow& window : steps.windows) windows_[window.run] = &window;
    std::map<std::pair<int, int>, const TracedAct*> last;  // by rank and queue
    for (const TracedAct& act : trace.acts) {
      if (act.plan != steps.plan || windows_.count(act.run) == 0) continue;
      const pb::Actor& actor = trace.ActorOf(act);
      const TracedAct*& before = last[{actor.rank(), actor.queue()}];
      before_[&act - trace.acts.data()] = before != nullptr && before->run == act.run ? before : nullptr;
      before = &act;
      if (actor.queue() == pb::COMPUTE) Add(act);
    }
    for (const auto& [where, act] : last) {
      if (where.second != pb::COMPUTE) continue;
      ranks_[where.first].rest += std::max<int64_t>(0, windows_.at(act->run)->end_ns - act->end_ns);
    }
  }

  std::vector<StepDivision> Take() {
    std::vector<StepDivision> all;
    for (auto& [rank, division] : ranks_) {
      division.rank = rank;
      all.push_back(division);
    }
    return all;
  }

 private:
  const TracedAct* Before(const TracedAct& act) const { return before_[&act - trace_.acts.data()]; }

  void Add(const TracedAct& act) {
    const TraceWindow& window = *windows_.at(act.run);
    StepDivision& to = ranks_[trace_.ActorOf(act).rank()];
    const auto clamp = [&](int64_t ns) { return std::clamp(ns, window.begin_ns, window.end_ns); };
    const TracedAct* before = Before(act);
    const int64_t free = clamp(before == nullptr ? window.begin_ns : before->end_ns), begin = clamp(act.begin_ns);
    const int64_t ready = std::clamp(act.ready_ns, free, std::max(free, begin));
    to.compute += clamp(act.end_ns) - begin;
    to.late += std::max<int64_t>(0, begin - ready);
    Walk(index_.CauseOf(act), free, ready, to);
  }

  // Shares out [from, until), which ended when `act` had let somebody begin.
  void Walk(const TracedAct* act, int64_t from, int64_t until, StepDivision& to) const {
    while (act != nullptr && until > from) {
      const int64_t end = std::clamp(act->end_ns, from, until), begin = std::clamp(act->begin_ns, from, end);
      to.messages += until - end;
      const pb::Queue queue = trace_.ActorOf(*act).queue();
      (queue == pb::COMMUNICATION ? to.communication : queue == pb::HOST ? to.host : to.bubble) += end - begin;
      until = begin;
      const TracedAct *before = Before(*act), *cause = index_.CauseOf(*act);
      const bool by_cause =
          cause != nullptr && cause->begin_ns < act->begin_ns && (before == nullptr || act->ready_ns > before->end_ns);
      act = by_cause ? cause : before;
    }
    to.messages += until - from;
  }

  const Trace& trace_;
  const ActIndex index_;
  std::map<int32_t, const TraceWindow*> windows_;  // by run
  std::vector<const TracedAct*> before_;           // on the same queue
  std::map<int, StepDivision> ranks_;
};

}  // namespace

std::vector<StepDivision> DivideSteps(const Trace& trace, const TraceSteps& steps) {
  return Divider(trace, steps).Take();
}

int CriticalRank(const Trace& trace, const TraceSummary& summary) {
  std::map<int, int64_t> ranks;
  const pb::Plan& plan = trace.head.program().plans(summary.steps.plan);
  for (const auto& [actor, ns] : summary.path.actors) ranks[plan.actors(actor).rank()] += ns;
  const auto most =
      std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == ranks.end() ? 0 : most->first;
}

std::string DivisionText(const StepDivision& division, const TraceSteps& steps) {
  std::string text;
  for (const auto& [ns, what] :
       {std::pair(division.compute, "computing"), std::pair(division.communication, "exposed communication"),
        std::pair(division.bubble, "bubble: others compute"), std::pair(division.host, "the host reads or fetches"),
        std::pair(division.messages, "messages on the way"),
        std::pair(division.late + division.rest, "waking up, going on")}) {
    absl::StrAppendFormat(
        &text, "  %12.3f %6.1f%%  %s\n", 1e-6 * static_cast<double>(ns) / static_cast<double>(steps.num_steps()),
        100 * static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(1, division.total())), what);
  }
  return text;
}

}  // namespace oneflow
