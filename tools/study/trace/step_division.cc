#include "tools/study/trace/step_division.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/queues.h"

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
      if (actor.queue() == MainQueue()) Add(act);
    }
    for (const auto& [where, act] : last) {
      if (where.second != MainQueue()) continue;
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
    AddWork(trace_.ActorOf(act), clamp(act.end_ns) - begin, to);
    to.late += std::max<int64_t>(0, begin - ready);
    Walk(index_.CauseOf(act), free, ready, to);
  }

  // The last part takes what rounding leaves.
  static void AddWork(const pb::Actor& actor, int64_t ns, StepDivision& to) {
    double whole = 0;
    for (const pb::ActorPart& part : actor.parts()) whole += static_cast<double>(part.ns());
    int64_t left = ns;
    for (const pb::ActorPart& part : actor.parts()) {
      const double share = whole > 0 ? static_cast<double>(part.ns()) / whole : 0;
      const auto of_part = static_cast<int64_t>(share * static_cast<double>(ns));
      to.work[part.section()] += of_part;
      left -= of_part;
    }
    to.work[actor.parts().empty() ? pb::NO_SECTION : actor.parts().rbegin()->section()] += left;
  }

  // Shares out [from, until), which ended when `act` had let somebody begin.
  void Walk(const TracedAct* act, int64_t from, int64_t until, StepDivision& to) const {
    while (act != nullptr && until > from) {
      const int64_t end = std::clamp(act->end_ns, from, until), begin = std::clamp(act->begin_ns, from, end);
      to.messages += until - end;
      const pb::Actor& actor = trace_.ActorOf(*act);
      const QueueKind& queue = QueueKindOf(actor.queue());
      int64_t& what = queue.moves_between_ranks ? to.exposed[absl::StrJoin(actor.crosses(), ", ")]
                      : queue.launches          ? to.bubble
                                                : to.host;
      what += end - begin;
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

int64_t StepDivision::computing() const {
  int64_t sum = 0;
  for (const auto& [what, ns] : work) sum += ns;
  return sum;
}

int64_t StepDivision::communication() const {
  int64_t sum = 0;
  for (const auto& [axes, ns] : exposed) sum += ns;
  return sum;
}

std::string DivisionText(const StepDivision& division, const TraceSteps& steps) {
  std::string text;
  const auto add = [&](int64_t ns, absl::string_view what) {
    absl::StrAppendFormat(
        &text, "  %12.3f %6.1f%%  %s\n", 1e-6 * static_cast<double>(ns) / static_cast<double>(steps.num_steps()),
        100 * static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(1, division.total())), what);
  };
  for (const auto& [work, what] :
       {std::pair(pb::FORWARD, "forward"), std::pair(pb::INPUT_GRADIENTS, "backward: gradients of values"),
        std::pair(pb::WEIGHT_GRADIENTS, "backward: gradients of weights"),
        std::pair(pb::BACKWARD, "backward: both at once"), std::pair(pb::UPDATE, "optimizer"),
        std::pair(pb::NO_SECTION, "computing")}) {
    if (const auto it = division.work.find(work); it != division.work.end() && it->second > 0) add(it->second, what);
  }
  for (const auto& [axes, ns] : division.exposed) {
    if (ns > 0) add(ns, axes.empty() ? "exposed communication" : absl::StrCat("exposed ", axes));
  }
  add(division.bubble, "bubble: others compute");
  add(division.host, "the host reads or fetches");
  if (division.messages > 0) add(division.messages, "messages on the way");
  if (division.late + division.rest > 0) add(division.late + division.rest, "waking up, going on");
  return text;
}

}  // namespace oneflow
