#include "compiler/plan/period.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "compiler/plan/wait_expansion.h"

namespace oneflow {
namespace {

// Finds the maximum cycle ratio by raising a guess. For a guess, acts get times to begin at, such that nobody begins
// before what it waits for is done, `guess` later for every token; they are moved back as often as one is violated.
// Either all come to rest, and the guess is enough; or the waits that moved acts last close a circle, whose ratio is
// a better guess. Acts are gone through in the order of a step, so that a pass settles all that holds no token.
class CycleRatio {
 public:
  CycleRatio(const WaitGraph& graph, const ActTimes& times)
      : acts_(graph, WaitExpansion::Waits::kAll),
        seconds_(acts_.size(), 0.0),
        begin_(acts_.size(), 0.0),
        moved_by_(acts_.size(), nullptr) {
    for (size_t a = 0; a < graph.actors.size(); ++a) {
      for (int act = 0; act < graph.actors[a].acts_per_step; ++act) {
        double& seconds = seconds_[acts_.vertex(static_cast<int>(a), act)];
        seconds = std::max(seconds, times.seconds[a]);
      }
    }
    double sum = 0;
    for (double seconds : seconds_) sum += seconds;
    least_move_ = 1e-14 * sum;  // more than what rounding makes of sums of these
    SortActs();
  }

  // The largest ratio above 0, with its circle.
  Period Run() {
    while (Pass()) Raise();
    return std::move(best_);
  }

 private:
  using Edge = WaitExpansion::Edge;

  // What an act waits for within a step comes before it.
  void SortActs() {
    std::vector<int> waits(acts_.size(), 0);
    std::vector<std::vector<int>> waiters(acts_.size());
    for (int v = 0; v < acts_.size(); ++v) {
      for (const Edge& edge : acts_.edges(v)) {
        if (edge.tokens > 0) continue;
        ++waits[v];
        waiters[edge.to].push_back(v);
      }
      if (waits[v] == 0) sorted_.push_back(v);
    }
    for (size_t head = 0; head < sorted_.size(); ++head) {
      for (int waiter : waiters[sorted_[head]]) {
        if (--waits[waiter] == 0) sorted_.push_back(waiter);
      }
    }
  }

  // Moves acts that begin too early; false if none did.
  bool Pass() {
    bool moved = false;
    for (int v : sorted_) {
      for (const Edge& edge : acts_.edges(v)) {
        const double earliest = begin_[edge.to] + seconds_[edge.to] - best_.seconds * edge.tokens;
        if (earliest <= begin_[v] + least_move_) continue;
        begin_[v] = earliest;
        moved_by_[v] = &edge;
        moved = true;
      }
    }
    return moved;
  }

  // Looks for circles among the waits that moved acts last, and takes the one of the largest ratio for the next guess.
  void Raise() {
    std::vector<int> seen(acts_.size(), -1);
    const Period before = best_;
    for (int start = 0; start < acts_.size(); ++start) {
      int v = start;
      while (seen[v] < 0 && moved_by_[v] != nullptr) {
        seen[v] = start;
        v = moved_by_[v]->to;
      }
      if (seen[v] == start && moved_by_[v] != nullptr) TakeCircle(v);
    }
    if (best_.seconds > before.seconds) std::fill(moved_by_.begin(), moved_by_.end(), nullptr);
  }

  void TakeCircle(int start) {
    Period circle;
    double seconds = 0;
    int v = start;
    do {
      seconds += seconds_[v];
      circle.tokens += moved_by_[v]->tokens;
      circle.cycle.push_back(moved_by_[v]->why);
      v = moved_by_[v]->to;
    } while (v != start);
    circle.seconds = seconds / circle.tokens;
    if (circle.seconds > best_.seconds) best_ = std::move(circle);
  }

  const WaitExpansion acts_;
  std::vector<double> seconds_;        // of an act
  std::vector<double> begin_;          // when it begins in a step, at the earliest
  std::vector<const Edge*> moved_by_;  // the wait that decided that
  std::vector<int> sorted_;
  double least_move_ = 0;
  Period best_;
};

std::string Milliseconds(double seconds) { return absl::StrFormat("%.4g ms", seconds * 1e3); }

}  // namespace

Period BestPeriod(const WaitGraph& graph, const ActTimes& times) {
  Period best = CycleRatio(graph, times).Run();
  for (size_t q = 0; q < times.queues.size(); ++q) {
    double busy = 0;
    for (int actor : times.queues[q]) busy += times.seconds[actor] * graph.actors[actor].acts_per_step;
    // Where a circle says the same, it says more.
    if (busy <= best.seconds * (1 + 1e-12)) continue;
    best = Period{busy, {}, 0, static_cast<int>(q)};
  }
  return best;
}

std::vector<WhatIf> WhatIfOneSlotMore(const WaitGraph& graph, const ActTimes& times, const Period& period) {
  std::vector<int> registers;
  for (const Wait& wait : period.cycle) {
    if (wait.credit) registers.push_back(wait.reg);
  }
  std::sort(registers.begin(), registers.end());
  registers.erase(std::unique(registers.begin(), registers.end()), registers.end());
  std::vector<WhatIf> all;
  WaitGraph changed = graph;
  for (int reg : registers) {
    const int slots = ++changed.registers[reg].slots;
    all.push_back({reg, slots, BestPeriod(changed, times).seconds});
    --changed.registers[reg].slots;
  }
  std::stable_sort(all.begin(), all.end(), [](const WhatIf& a, const WhatIf& b) { return a.seconds < b.seconds; });
  return all;
}

std::string WhatIfText(const WaitGraph& graph, const Period& period, const WhatIf& what_if) {
  const double more = period.seconds / what_if.seconds - 1;
  return absl::StrFormat("slots of '%s' from %d to %d: %+.0f%% throughput", graph.registers[what_if.reg].name,
                         graph.registers[what_if.reg].slots, what_if.slots, more * 100);
}

std::string PeriodText(const WaitGraph& graph, const ActTimes& times, const Period& period) {
  if (period.queue >= 0) {
    return absl::StrCat("a queue is busy for ", Milliseconds(period.seconds), " of every step");
  }
  std::string text = absl::StrCat(Milliseconds(period.seconds), " a step");
  for (const Wait& wait : period.cycle) {
    const WaitGraph::Actor& actor = graph.actors[wait.actor];
    absl::StrAppend(&text, "\n  '", actor.name, "'");
    if (actor.acts_per_step > 1) absl::StrAppend(&text, " act ", wait.act);
    absl::StrAppend(&text, ", ", Milliseconds(times.seconds[wait.actor]), ", waits for ");
    if (wait.reg < 0) {
      absl::StrAppend(&text, "its turn");
    } else if (wait.credit) {
      const WaitGraph::Register& reg = graph.registers[wait.reg];
      absl::StrAppend(&text, "a free slot of '", reg.name, "', which has ", reg.slots);
    } else {
      absl::StrAppend(&text, "data of '", graph.registers[wait.reg].name, "'");
    }
  }
  if (period.tokens > 1) absl::StrAppend(&text, "\n  once round in ", period.tokens, " steps");
  return text + "\n";
}

}  // namespace oneflow
