#include "tools/study/trace/critical_path.h"

#include <algorithm>
#include <utility>

#include "actor/trace/track.h"

namespace oneflow {
namespace {

class PathFinder {
 public:
  PathFinder(const Trace& trace, const TraceSteps& steps) : trace_(trace), index_(trace), before_(trace.acts.size()) {
    std::map<std::pair<int, int>, const TracedAct*> last;  // by rank and queue
    for (size_t i = 0; i < trace.acts.size(); ++i) {
      const TracedAct& act = trace.acts[i];
      const pb::Actor& actor = trace.ActorOf(act);
      const TracedAct*& before = last[{actor.rank(), QueueOf(actor)}];
      before_[i] = before;
      before = &act;
    }
    const auto ends = LastActs(steps);
    for (const TraceWindow& window : steps.windows) Walk(window, ends.at({window.run, window.end_ns}));
  }
  CriticalPath Take() { return std::move(path_); }

 private:
  struct Before {
    const TracedAct* act = nullptr;
    pb::Cause cause = pb::START;
  };

  // By run and end: the acts with which windows end.
  std::map<std::pair<int32_t, int64_t>, const TracedAct*> LastActs(const TraceSteps& steps) const {
    std::map<std::pair<int32_t, int64_t>, const TracedAct*> last;
    for (const TraceWindow& window : steps.windows) last[{window.run, window.end_ns}] = nullptr;
    for (const TracedAct& act : trace_.acts) {
      const auto wanted = last.find({act.run, act.end_ns});
      if (wanted != last.end() && act.plan == steps.plan) wanted->second = &act;
    }
    return last;
  }

  // Whoever let the act begin. A message is what it began by if it came when the queue was free, or from the very act
  // that kept the queue until then.
  Before WhoLet(const TracedAct& act) const {
    const TracedAct* const queue = before_[&act - trace_.acts.data()];
    const TracedAct* const cause = index_.CauseOf(act);
    const bool by_cause = cause != nullptr && cause->begin_ns < act.begin_ns &&
                          (queue == nullptr || cause == queue || act.ready_ns > queue->end_ns);
    if (by_cause) return {cause, act.cause};
    return {queue, pb::START};
  }

  // `now` runs back in time.
  void Walk(const TraceWindow& window, const TracedAct* act) {
    int64_t now = window.end_ns;
    const TracedAct* later = nullptr;
    pb::Cause by = pb::START;
    while (act != nullptr && now > window.begin_ns) {
      const int64_t end = std::clamp(act->end_ns, window.begin_ns, now);
      const int64_t begin = std::clamp(act->begin_ns, window.begin_ns, end);
      Add(*act, later, by, now - end, end - begin);
      now = begin;
      later = act;
      const Before before = WhoLet(*act);
      act = before.act != nullptr && before.act->run == window.run ? before.act : nullptr;
      by = before.cause;
    }
  }

  void Add(const TracedAct& act, const TracedAct* later, pb::Cause by, int64_t on_the_way, int64_t busy) {
    path_.actors[act.actor] += busy;
    path_.on_the_way += on_the_way;
    path_.total += on_the_way + busy;
    if (later == nullptr) return;
    const bool by_register = by == pb::FILLED || by == pb::FREED;
    CriticalPath::EdgeTime& edge = path_.edges[{
        .cause = by, .register_id = by_register ? later->register_id : -1, .from = act.actor, .to = later->actor}];
    edge.total += on_the_way + busy;
    edge.on_the_way += on_the_way;
    edge.steps[{later->run, later->step}] += on_the_way + busy;
  }

  const Trace& trace_;
  const ActIndex index_;
  std::vector<const TracedAct*> before_;  // on the same queue
  CriticalPath path_;
};

}  // namespace

CriticalPath FindCriticalPath(const Trace& trace, const TraceSteps& steps) { return PathFinder(trace, steps).Take(); }

}  // namespace oneflow
