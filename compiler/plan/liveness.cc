#include "compiler/plan/liveness.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "compiler/plan/step_player.h"
#include "compiler/plan/wait_expansion.h"

namespace oneflow {
namespace {

using Waits = WaitExpansion::Waits;

// The acts that lie on cycles or wait only for such: those that remain when everything possible has happened.
std::vector<bool> Stuck(const WaitExpansion& acts) {
  std::vector<int> waits(acts.size());
  std::vector<std::vector<int>> waiters(acts.size());
  std::vector<int> ready;
  for (int v = 0; v < acts.size(); ++v) {
    waits[v] = static_cast<int>(acts.edges(v).size());
    if (waits[v] == 0) ready.push_back(v);
    for (const WaitExpansion::Edge& edge : acts.edges(v)) waiters[edge.to].push_back(v);
  }
  std::vector<bool> stuck(acts.size(), true);
  while (!ready.empty()) {
    const int v = ready.back();
    ready.pop_back();
    stuck[v] = false;
    for (int waiter : waiters[v]) {
      if (--waits[waiter] == 0) ready.push_back(waiter);
    }
  }
  return stuck;
}

// Numbers the acts on cycles, with one number per strongly connected component (Tarjan's algorithm without recursion).
// -1 for all others, among them stuck acts that only wait for a cycle: a search from them would find none.
class Circles {
 public:
  explicit Circles(const WaitExpansion& acts)
      : acts_(acts), order_(acts.size(), -1), low_(acts.size(), 0), is_open_(acts.size(), false), of_(acts.size(), -1) {
    for (int v = 0; v < acts.size(); ++v) {
      if (order_[v] < 0) Visit(v);
    }
  }
  std::vector<int> Take() { return std::move(of_); }

 private:
  void Enter(int v) {
    order_[v] = low_[v] = num_visited_++;
    is_open_[v] = true;
    open_.push_back(v);
    path_.push_back({v, 0});
  }

  void Visit(int root) {
    Enter(root);
    while (!path_.empty()) {
      auto& [v, next_edge] = path_.back();
      if (next_edge < acts_.edges(v).size()) {
        const int to = acts_.edges(v)[next_edge++].to;
        if (is_open_[to]) low_[v] = std::min(low_[v], order_[to]);
        if (order_[to] < 0) Enter(to);
        continue;
      }
      const int done = v;
      path_.pop_back();
      if (!path_.empty()) low_[path_.back().first] = std::min(low_[path_.back().first], low_[done]);
      if (low_[done] == order_[done]) Close(done);
    }
  }

  // `first` and all later entered acts that are still open.
  void Close(int first) {
    const auto& edges = acts_.edges(first);
    const bool waits_for_itself =
        std::any_of(edges.begin(), edges.end(), [&](const WaitExpansion::Edge& edge) { return edge.to == first; });
    const bool is_circle = open_.back() != first || waits_for_itself;
    for (int v = -1; v != first; open_.pop_back()) {
      v = open_.back();
      is_open_[v] = false;
      if (is_circle) of_[v] = first;
    }
  }

  const WaitExpansion& acts_;
  int num_visited_ = 0;
  std::vector<int> order_, low_;  // when an act was entered, and the first open one that it leads to
  std::vector<bool> is_open_;
  std::vector<int> open_;
  std::vector<std::pair<int, size_t>> path_;  // acts, and the next edge of each
  std::vector<int> of_;
};

// Finds short cycles from single acts on cycles. Only memory that a search touched is cleared.
class CycleSearch {
 public:
  CycleSearch(const WaitExpansion& acts, const std::vector<int>& circles)
      : acts_(acts), circles_(circles), reached_(acts.size()) {}

  // A shortest cycle through `start`, shorter than `limit`; empty if there is none.
  std::vector<Wait> From(int start, size_t limit) {
    std::vector<Wait> cycle;
    queue_ = {start};
    effort_ = 1;
    for (size_t head = 0; head < queue_.size() && cycle.empty(); ++head) {
      const int v = queue_[head];
      if (reached_[v].length + 1 >= limit) break;
      effort_ += acts_.edges(v).size();
      for (const WaitExpansion::Edge& edge : acts_.edges(v)) {
        if (edge.to == start) {
          cycle = PathTo(v, start, edge.why);
          break;
        }
        if (circles_[edge.to] != circles_[start] || reached_[edge.to].edge != nullptr) continue;
        reached_[edge.to] = {v, &edge, reached_[v].length + 1};
        queue_.push_back(edge.to);
      }
    }
    for (int v : queue_) reached_[v] = {};
    return cycle;
  }
  // Edges that the last search looked at.
  size_t effort() const { return effort_; }

 private:
  struct Step {
    int from = -1;
    const WaitExpansion::Edge* edge = nullptr;
    size_t length = 0;
  };

  std::vector<Wait> PathTo(int v, int start, const Wait& last) const {
    std::vector<Wait> path = {last};
    for (int at = v; at != start; at = reached_[at].from) path.push_back(reached_[at].edge->why);
    std::reverse(path.begin(), path.end());
    return path;
  }

  const WaitExpansion& acts_;
  const std::vector<int>& circles_;
  std::vector<Step> reached_;
  std::vector<int> queue_;
  size_t effort_ = 0;
};

// The total cost, in acts and edges, of searches for the best explanation.
size_t MostEffort(const WaitExpansion& acts) { return 64 * static_cast<size_t>(acts.size()) + (size_t{1} << 22); }

bool HasDeadCycle(const WaitGraph& graph) {
  const std::vector<bool> stuck = Stuck(WaitExpansion(graph, Waits::kWithinStep));
  return std::find(stuck.begin(), stuck.end(), true) != stuck.end();
}

// The fewest additional slots that make the whole plan live, if the slots of a full step do; more never harm.
std::optional<int> SlotsToAdd(const WaitGraph& graph, int reg) {
  WaitGraph changed = graph;
  const auto is_live_with = [&](int more) {
    changed.registers[reg].slots = graph.registers[reg].slots + more;
    return !HasDeadCycle(changed);
  };
  const WaitGraph::Port& producer = graph.registers[reg].producer;
  int too_few = 0;
  int enough =
      graph.actors[producer.actor].acts_per_step / producer.acts_per_slot + graph.registers[reg].initially_filled;
  if (!is_live_with(enough)) return std::nullopt;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (is_live_with(middle) ? enough : too_few) = middle;
  }
  return enough;
}

// "give register 'x' 2 slots (it has 1)": the first register of the cycle for which more slots make the whole plan
// live; else the first whose lack of a free slot is part of the cycle. Of a long cycle in a large plan only the first
// few are tried.
std::string Remedy(const WaitGraph& graph, const std::vector<Wait>& cycle) {
  const bool turns =
      std::any_of(cycle.begin(), cycle.end(), [](const Wait& wait) { return wait.reg < 0 && wait.on != wait.actor; });
  std::string fallback = turns ? "let all ranks launch their common calls in one order"
                               : "no number of slots breaks it: the cycle consists of data";
  const WaitExpansion acts(graph, Waits::kWithinStep);
  size_t tries = 1 + MostEffort(acts) / (static_cast<size_t>(acts.size()) * 16 + 1);
  bool found_credit = false;
  for (const Wait& wait : cycle) {
    if (!wait.credit) continue;
    if (tries-- == 0) break;
    const WaitGraph::Register& reg = graph.registers[wait.reg];
    if (const std::optional<int> more = SlotsToAdd(graph, wait.reg)) {
      return absl::StrCat("give register '", reg.name, "' ", reg.slots + *more, " slots (it has ", reg.slots, ")");
    }
    if (!found_credit) {
      found_credit = true;
      fallback = absl::StrCat("it needs more slots in register '", reg.name, "' (it has ", reg.slots,
                              "), and there are further circles");
    }
  }
  return fallback;
}

std::string Show(const WaitGraph& graph, const std::vector<Wait>& cycle) {
  const auto name = [&](int actor, int act) {
    const WaitGraph::Actor& a = graph.actors[actor];
    return a.acts_per_step == 1 ? absl::StrCat("'", a.name, "'") : absl::StrCat("'", a.name, "' act ", act);
  };
  std::string text = name(cycle[0].actor, cycle[0].act);
  for (size_t i = 0; i < cycle.size(); ++i) {
    const Wait& wait = cycle[i];
    const Wait& next = cycle[(i + 1) % cycle.size()];
    std::string reason = "its turn";
    if (wait.reg >= 0) {
      reason = absl::StrCat(wait.credit ? "a free slot of '" : "data of '", graph.registers[wait.reg].name, "'");
    }
    absl::StrAppend(&text, " waits for ", reason, " from ", name(wait.on, wait.on_act));
    if (next.actor != wait.on) absl::StrAppend(&text, ", which acts together with ", name(next.actor, next.act));
    if (i + 1 < cycle.size()) absl::StrAppend(&text, ", which");
  }
  return text;
}

absl::Status CheckTogether(const WaitGraph& graph) {
  std::vector<bool> seen(graph.actors.size(), false);
  for (const std::vector<int>& group : graph.together) {
    for (int actor : group) {
      const WaitGraph::Actor& first = graph.actors[group[0]];
      const WaitGraph::Actor& one = graph.actors[actor];
      if (one.acts_per_step != first.acts_per_step) {
        return absl::InvalidArgumentError(absl::StrCat("actor '", one.name, "': ", one.acts_per_step,
                                                       " acts per step, but '", first.name,
                                                       "', which acts together with it, has ", first.acts_per_step));
      }
      if (seen[actor]) return absl::InvalidArgumentError(absl::StrCat("actor '", one.name, "': it is in two groups"));
      seen[actor] = true;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOrders(const WaitGraph& graph) {
  for (const std::vector<int>& order : graph.orders) {
    std::map<int, int> acts;
    for (int actor : order) ++acts[actor];
    for (const auto& [actor, count] : acts) {
      const WaitGraph::Actor& one = graph.actors[actor];
      if (count == one.acts_per_step) continue;
      return absl::InvalidArgumentError(absl::StrCat("actor '", one.name, "': ordered ", count, " times, acts ",
                                                     one.acts_per_step, " times per step"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRates(const WaitGraph& graph) {
  for (const WaitGraph::Actor& actor : graph.actors) {
    if (actor.acts_per_step < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("actor '", actor.name, "': ", actor.acts_per_step, " acts per step"));
    }
  }
  for (const WaitGraph::Register& reg : graph.registers) {
    const std::string where = absl::StrCat("register '", reg.name, "'");
    if (reg.slots < 1 || reg.initially_filled < 0 || reg.initially_filled > reg.slots) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", reg.initially_filled, " of ", reg.slots, " slots are filled at the start"));
    }
    const auto slots_per_step = [&](const WaitGraph::Port& port) {
      const int acts = graph.actors[port.actor].acts_per_step;
      return port.acts_per_slot < 1 || acts % port.acts_per_slot != 0 ? 0 : acts / port.acts_per_slot;
    };
    const int fills = slots_per_step(reg.producer);
    for (const WaitGraph::Port& consumer : reg.consumers) {
      if (fills > 0 && slots_per_step(consumer) == fills) continue;
      const auto show = [&](const WaitGraph::Port& port) {
        const WaitGraph::Actor& actor = graph.actors[port.actor];
        return absl::StrCat("'", actor.name, "' (", actor.acts_per_step, " acts per step, ", port.acts_per_slot,
                            " per slot)");
      };
      return absl::InvalidArgumentError(absl::StrCat(where, ": filled by ", show(reg.producer), " but emptied by ",
                                                     show(consumer), ": the rates differ"));
    }
  }
  OF_RETURN_IF_ERROR(CheckTogether(graph));
  return CheckOrders(graph);
}

absl::Status SimulateStep(const WaitGraph& graph) {
  StepPlayer player(graph);
  std::deque<int> all(graph.actors.size());
  std::iota(all.begin(), all.end(), 0);
  player.PlayFrom(std::move(all));
  const std::vector<std::string> unfinished = player.Unfinished();
  if (!unfinished.empty()) {
    const size_t shown = std::min<size_t>(unfinished.size(), 20);
    return absl::FailedPreconditionError(absl::StrCat(
        "deadlock: ", unfinished.size(), " actors never finish a step: ",
        absl::StrJoin(unfinished.begin(), unfinished.begin() + shown, ", "), shown < unfinished.size() ? ", ..." : ""));
  }
  if (!player.IsBack())
    return absl::FailedPreconditionError("after one step the registers are not as they were before");
  return absl::OkStatus();
}

std::optional<std::vector<Wait>> FindDeadCycle(const WaitGraph& graph) {
  const WaitExpansion acts(graph, Waits::kWithinStep);
  const std::vector<int> circles = Circles(acts).Take();
  CycleSearch search(acts, circles);
  std::vector<Wait> best;
  // The first search finds a cycle, every other is bounded by the shortest so far. Their total cost is bounded too, so
  // a large plan gets a short cycle in linear time where a small one gets the shortest.
  size_t effort = 0;
  for (int v = 0; v < acts.size() && effort < MostEffort(acts); ++v) {
    if (circles[v] < 0) continue;
    std::vector<Wait> cycle = search.From(v, best.empty() ? acts.size() + 1 : best.size());
    effort += search.effort();
    if (!cycle.empty()) best = std::move(cycle);
  }
  if (best.empty()) return std::nullopt;
  return best;
}

absl::Status CheckLive(const WaitGraph& graph) {
  OF_RETURN_IF_ERROR(CheckRates(graph));
  const absl::Status played = SimulateStep(graph);
  const bool proved = !HasDeadCycle(graph);
  if (played.ok() != proved) {
    return absl::InternalError(
        absl::StrCat("playing a step says '", played.ToString(), "', but ",
                     proved ? "every cycle of waits holds a token" : "a cycle of waits holds no token"));
  }
  if (proved) return absl::OkStatus();
  const std::vector<Wait> cycle = *FindDeadCycle(graph);
  return absl::FailedPreconditionError(
      absl::StrCat("deadlock: ", Show(graph, cycle), "; to break it, ", Remedy(graph, cycle)));
}

}  // namespace oneflow
