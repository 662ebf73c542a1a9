#include "compiler/plan/period.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "compiler/plan/wait_expansion.h"

namespace oneflow {
namespace {

// Finds the maximum cycle ratio by raising a guess. For a guess, every act gets a begin that is not before the end of
// the acts that it waits for, minus `guess` for every token; begins are moved while a wait is violated. Either all come
// to rest, and the guess is enough; or the waits that moved acts last close a cycle, whose ratio is a better guess.
// Acts are visited in the order of a step, so a pass settles all waits without a token.
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
    least_move_ = 1e-14 * sum;  // above the rounding errors of sums of these
    SortActs();
  }

  // The largest ratio above 0, with its circle.
  Period Run() {
    while (Pass()) Raise();
    return std::move(best_);
  }

 private:
  using Edge = WaitExpansion::Edge;

  // Within a step, an act comes behind the acts that it waits for.
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

  // Searches for cycles among the waits that moved acts last; the largest ratio becomes the next guess.
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
  std::vector<double> begin_;          // its earliest begin in a step
  std::vector<const Edge*> moved_by_;  // the wait that decided that
  std::vector<int> sorted_;
  double least_move_ = 0;
  Period best_;
};

std::string Milliseconds(double seconds) { return absl::StrFormat("%.4g ms", seconds * 1e3); }

// Waits from `at` on that repeat in a row, act after act: how many, and how often; {1, 1} if none do.
std::pair<size_t, size_t> Repeated(const std::vector<Wait>& cycle, size_t at) {
  const auto alike = [&](size_t a, size_t b) {
    return cycle[a].actor == cycle[b].actor && cycle[a].reg == cycle[b].reg && cycle[a].credit == cycle[b].credit;
  };
  constexpr size_t kLongest = 16;  // actors that a micro-batch goes through and comes back to
  for (size_t length = 1; length <= kLongest && at + 2 * length <= cycle.size(); ++length) {
    size_t same = 0;
    while (at + length + same < cycle.size() && alike(at + same, at + length + same)) ++same;
    if (same >= length) return {length, 1 + same / length};
  }
  return {1, 1};
}

// "'read' act 0, 4 ms, waits for a free slot of 'x', which has 1".
std::string WaitText(const WaitGraph& graph, const ActTimes& times, const Wait& wait, bool says_act) {
  const WaitGraph::Actor& actor = graph.actors[wait.actor];
  std::string text = absl::StrCat("'", actor.name, "'");
  if (says_act && actor.acts_per_step > 1) absl::StrAppend(&text, " act ", wait.act);
  absl::StrAppend(&text, ", ", Milliseconds(times.seconds[wait.actor]), ", waits for ");
  if (wait.reg < 0) return text + "its turn";
  const WaitGraph::Register& reg = graph.registers[wait.reg];
  if (!wait.credit) return absl::StrCat(text, "data of '", reg.name, "'");
  return absl::StrCat(text, "a free slot of '", reg.name, "', which has ", reg.slots);
}

}  // namespace

Period BestPeriod(const WaitGraph& graph, const ActTimes& times) {
  Period best = CycleRatio(graph, times).Run();
  for (size_t q = 0; q < times.queues.size(); ++q) {
    double busy = 0;
    for (int actor : times.queues[q]) busy += times.seconds[actor] * graph.actors[actor].acts_per_step;
    // A cycle with the same value says more.
    if (busy <= best.seconds * (1 + 1e-12)) continue;
    best = Period{busy, {}, 0, static_cast<int>(q)};
  }
  return best;
}

std::vector<WhatIf> WhatIfOneSlotMore(const WaitGraph& graph, const ActTimes& times, const Period& period) {
  std::vector<int> registers;
  for (const Wait& wait : period.cycle) {
    // A register that starts filled is state, which has one place.
    if (wait.credit && graph.registers[wait.reg].initially_filled == 0) registers.push_back(wait.reg);
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
    return absl::StrCat("a queue is busy for ", Milliseconds(period.seconds), " of every step\n");
  }
  std::string text = absl::StrCat(Milliseconds(period.seconds), " a step\n");
  for (size_t at = 0; at < period.cycle.size();) {
    const auto [length, times_round] = Repeated(period.cycle, at);
    const absl::string_view indent = times_round > 1 ? "    " : "  ";
    if (times_round > 1) absl::StrAppend(&text, "  ", times_round, " times\n");
    for (size_t i = at; i < at + length; ++i) {
      absl::StrAppend(&text, indent, WaitText(graph, times, period.cycle[i], times_round == 1), "\n");
    }
    at += length * times_round;
  }
  if (period.tokens > 1) absl::StrAppend(&text, "  once round in ", period.tokens, " steps\n");
  return text;
}

}  // namespace oneflow
