#include "tools/study/trace/queue_use.h"

#include <algorithm>

#include "actor/trace/track.h"

namespace oneflow {
namespace {

// Of [begin, end) that which is in the window.
int64_t Within(const TraceWindow& window, int64_t begin, int64_t end) {
  return std::max<int64_t>(0, std::min(end, window.end_ns) - std::max(begin, window.begin_ns));
}

// Adds the acts of one queue in one run, by begin.
void AddActs(const TraceWindow& window, const std::vector<const TracedAct*>& acts, QueueUse& use) {
  int64_t free_ns = window.begin_ns;
  for (const TracedAct* act : acts) {
    const int64_t ready = std::clamp(act->ready_ns, free_ns, std::max(free_ns, act->begin_ns));
    if (const int64_t waited = Within(window, free_ns, ready); waited > 0) {
      use.waits[{act->cause, act->register_id, act->actor}] += waited;
    }
    use.late += Within(window, ready, act->begin_ns);
    if (const int64_t busy = Within(window, std::max(free_ns, act->begin_ns), act->end_ns); busy > 0) {
      use.busy[act->actor] += busy;
    }
    free_ns = std::max(free_ns, act->end_ns);
  }
  use.rest += Within(window, free_ns, window.end_ns);
  int64_t first_ready = INT64_MAX;  // of the acts behind
  for (size_t i = acts.size(); i-- > 0;) {
    use.contended += Within(window, std::max(acts[i]->begin_ns, first_ready), acts[i]->end_ns);
    first_ready = std::min(first_ready, acts[i]->ready_ns);
  }
}

}  // namespace

int64_t QueueUse::total_busy() const {
  int64_t sum = 0;
  for (const auto& [actor, ns] : busy) sum += ns;
  return sum;
}

int64_t QueueUse::waited(pb::Cause cause) const {
  int64_t sum = 0;
  for (const auto& [wait, ns] : waits) sum += wait.cause == cause ? ns : 0;
  return sum;
}

int64_t QueueUse::total() const {
  int64_t sum = total_busy() + late + rest;
  for (const auto& [wait, ns] : waits) sum += ns;
  return sum;
}

std::vector<QueueUse> FindQueueUse(const Trace& trace, const TraceSteps& steps) {
  std::map<int32_t, const TraceWindow*> window_of_run;
  for (const TraceWindow& window : steps.windows) window_of_run[window.run] = &window;
  std::map<std::pair<int, int>, std::map<int32_t, std::vector<const TracedAct*>>> acts;  // by queue, by run
  for (const TracedAct& act : trace.acts) {
    if (act.plan != steps.plan || window_of_run.count(act.run) == 0) continue;
    const pb::Actor& actor = trace.ActorOf(act);
    acts[{actor.rank(), QueueOf(actor)}][act.run].push_back(&act);
  }
  std::vector<QueueUse> uses;
  for (const auto& [queue, runs] : acts) {
    QueueUse use{.rank = queue.first, .queue = queue.second};
    for (const auto& [run, of_run] : runs) AddActs(*window_of_run[run], of_run, use);
    if (!use.busy.empty()) uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace oneflow
