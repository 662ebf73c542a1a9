#include "compiler/plan/liveness.h"

#include <algorithm>
#include <deque>

#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The acts of one step, numbered across actors, and for each the waits that hold no token.
class Expansion {
 public:
  struct Edge {
    int to = 0;  // waits for this act
    int reg = -1;
    bool credit = false;
  };

  explicit Expansion(const WaitGraph& graph) : graph_(graph) {
    for (const WaitGraph::Actor& actor : graph.actors) {
      first_.push_back(size());
      for (int act = 0; act < actor.acts_per_step; ++act) actor_.push_back(static_cast<int>(first_.size()) - 1);
    }
    edges_.resize(actor_.size());
    for (size_t a = 0; a < graph.actors.size(); ++a) {
      for (int act = 1; act < graph.actors[a].acts_per_step; ++act)
        edges_[first_[a] + act].push_back({first_[a] + act - 1});
    }
    for (size_t r = 0; r < graph.registers.size(); ++r) AddRegister(static_cast<int>(r));
  }

  int size() const { return static_cast<int>(actor_.size()); }
  const std::vector<Edge>& edges(int vertex) const { return edges_[vertex]; }
  Wait Describe(int vertex, const Edge& edge) const {
    return {actor_[vertex], vertex - first_[actor_[vertex]], edge.reg, edge.credit};
  }

 private:
  // `act` of `actor` waits for `other_act` of `other`, both counted from the beginning of this step; an earlier step's act
  // (negative) means tokens on the edge, which then cannot be on a dead cycle.
  void Add(int actor, int act, int other, int64_t other_act, int reg, bool credit) {
    if (FloorDiv(other_act, graph_.actors[other].acts_per_step) < 0) return;
    edges_[first_[actor] + act].push_back({static_cast<int>(first_[other] + other_act), reg, credit});
  }

  void AddRegister(int id) {
    const WaitGraph::Register& reg = graph_.registers[id];
    const WaitGraph::Port& from = reg.producer;
    for (const WaitGraph::Port& to : reg.consumers) {
      for (int act = 0; act < graph_.actors[to.actor].acts_per_step; ++act) {
        // Slot n of the consumer was filled by the producer's slot n less those that were full at the start.
        const int64_t fill = act / to.acts_per_slot - reg.initially_filled;
        Add(to.actor, act, from.actor, (fill + 1) * from.acts_per_slot - 1, id, false);
      }
      for (int act = 0; act < graph_.actors[from.actor].acts_per_step; ++act) {
        const int64_t freed = act / from.acts_per_slot + reg.initially_filled - reg.slots;
        Add(from.actor, act, to.actor, (freed + 1) * to.acts_per_slot - 1, id, true);
      }
    }
  }

  const WaitGraph& graph_;
  std::vector<int> first_;  // vertex of an actor's act 0
  std::vector<int> actor_;  // of a vertex
  std::vector<std::vector<Edge>> edges_;
};

// The acts that lie on cycles or only wait for such: what remains when everything that can happen has happened.
std::vector<bool> Stuck(const Expansion& acts) {
  std::vector<int> waits(acts.size());
  std::vector<std::vector<int>> waiters(acts.size());
  std::vector<int> ready;
  for (int v = 0; v < acts.size(); ++v) {
    waits[v] = static_cast<int>(acts.edges(v).size());
    if (waits[v] == 0) ready.push_back(v);
    for (const Expansion::Edge& edge : acts.edges(v)) waiters[edge.to].push_back(v);
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

// A shortest cycle through `start` among the stuck acts, shorter than `limit`; empty if there is none.
std::vector<Wait> ShortestCycleFrom(const Expansion& acts, const std::vector<bool>& stuck, int start, size_t limit) {
  struct Step {
    int from = -1;
    const Expansion::Edge* edge = nullptr;
    size_t length = 0;
  };
  std::vector<Step> reached(acts.size());
  std::deque<int> queue = {start};
  while (!queue.empty()) {
    const int v = queue.front();
    queue.pop_front();
    if (reached[v].length + 1 >= limit) return {};
    for (const Expansion::Edge& edge : acts.edges(v)) {
      if (edge.to == start) {
        std::vector<Wait> cycle = {acts.Describe(v, edge)};
        for (int at = v; at != start; at = reached[at].from)
          cycle.push_back(acts.Describe(reached[at].from, *reached[at].edge));
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
      }
      if (!stuck[edge.to] || reached[edge.to].edge != nullptr) continue;
      reached[edge.to] = {v, &edge, reached[v].length + 1};
      queue.push_back(edge.to);
    }
  }
  return {};
}

bool HasDeadCycle(const WaitGraph& graph) {
  const std::vector<bool> stuck = Stuck(Expansion(graph));
  return std::find(stuck.begin(), stuck.end(), true) != stuck.end();
}

// "give register 'x' 2 slots (it has 1)": the first register of the cycle for which more slots make the whole plan live; else
// the first whose lack of a free slot is part of the cycle.
std::string Remedy(const WaitGraph& graph, const std::vector<Wait>& cycle) {
  std::string fallback = "no number of slots breaks it: the circle is made of data";
  bool found_credit = false;
  for (const Wait& wait : cycle) {
    if (!wait.credit) continue;
    const WaitGraph::Register& reg = graph.registers[wait.reg];
    const int per_step = graph.actors[reg.producer.actor].acts_per_step / reg.producer.acts_per_slot;
    WaitGraph changed = graph;
    for (int more = 1; more <= per_step + reg.initially_filled; ++more) {
      changed.registers[wait.reg].slots = reg.slots + more;
      if (!HasDeadCycle(changed)) {
        return absl::StrCat("give register '", reg.name, "' ", reg.slots + more, " slots (it has ", reg.slots, ")");
      }
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
  const auto act = [&](const Wait& w) {
    const WaitGraph::Actor& actor = graph.actors[w.actor];
    return actor.acts_per_step == 1 ? absl::StrCat("'", actor.name, "'")
                                    : absl::StrCat("'", actor.name, "' act ", w.act);
  };
  std::string text = act(cycle[0]);
  for (size_t i = 0; i < cycle.size(); ++i) {
    const Wait& wait = cycle[i];
    std::string reason = "its turn";
    if (wait.reg >= 0) {
      reason = absl::StrCat(wait.credit ? "a free slot of '" : "data of '", graph.registers[wait.reg].name, "'");
    }
    absl::StrAppend(&text, " waits for ", reason, " from ", act(cycle[(i + 1) % cycle.size()]));
    if (i + 1 < cycle.size()) absl::StrAppend(&text, ", which");
  }
  return text;
}

// Counters of one register while a step is played.
struct Marking {
  int64_t filled = 0;          // slots published so far, with those full at the start
  std::vector<int64_t> freed;  // by each consumer
};

class Player {
 public:
  explicit Player(const WaitGraph& graph)
      : graph_(graph), acts_(graph.actors.size(), 0), in_(acts_.size()), out_(acts_.size()) {
    for (size_t r = 0; r < graph.registers.size(); ++r) {
      const WaitGraph::Register& reg = graph.registers[r];
      marking_.push_back({reg.initially_filled, std::vector<int64_t>(reg.consumers.size(), 0)});
      out_[reg.producer.actor].push_back(r);
      for (size_t c = 0; c < reg.consumers.size(); ++c) in_[reg.consumers[c].actor].push_back({r, c});
    }
  }

  // Lets `actor` act as often as it can within the step; whether it acted.
  bool Run(int actor) {
    bool acted = false;
    while (CanAct(actor)) {
      Act(actor);
      acted = true;
    }
    return acted;
  }

  std::vector<std::string> Unfinished() const {
    std::vector<std::string> names;
    for (size_t a = 0; a < acts_.size(); ++a) {
      const WaitGraph::Actor& actor = graph_.actors[a];
      if (acts_[a] < actor.acts_per_step) names.push_back(absl::StrCat("'", actor.name, "' at act ", acts_[a]));
    }
    return names;
  }

  // Whether every register holds as many full slots as at the start, for every reader.
  bool IsBack() const {
    for (size_t r = 0; r < marking_.size(); ++r) {
      for (int64_t freed : marking_[r].freed) {
        if (marking_[r].filled - freed != graph_.registers[r].initially_filled) return false;
      }
    }
    return true;
  }

 private:
  bool CanAct(int actor) const {
    if (acts_[actor] == graph_.actors[actor].acts_per_step) return false;
    for (const auto& [r, c] : in_[actor]) {
      if (marking_[r].filled == marking_[r].freed[c]) return false;
    }
    for (size_t r : out_[actor]) {
      for (int64_t freed : marking_[r].freed) {
        if (marking_[r].filled - freed == graph_.registers[r].slots) return false;
      }
    }
    return true;
  }

  void Act(int actor) {
    const int done = ++acts_[actor];
    for (const auto& [r, c] : in_[actor]) {
      if (done % graph_.registers[r].consumers[c].acts_per_slot == 0) ++marking_[r].freed[c];
    }
    for (size_t r : out_[actor]) {
      if (done % graph_.registers[r].producer.acts_per_slot == 0) ++marking_[r].filled;
    }
  }

  const WaitGraph& graph_;
  std::vector<int> acts_;
  std::vector<std::vector<std::pair<size_t, size_t>>> in_;  // (register, which consumer)
  std::vector<std::vector<size_t>> out_;
  std::vector<Marking> marking_;
};

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
  return absl::OkStatus();
}

absl::Status SimulateStep(const WaitGraph& graph) {
  Player player(graph);
  for (bool acted = true; acted;) {
    acted = false;
    for (size_t actor = 0; actor < graph.actors.size(); ++actor) acted = player.Run(static_cast<int>(actor)) || acted;
  }
  const std::vector<std::string> unfinished = player.Unfinished();
  if (!unfinished.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "deadlock: ", unfinished.size(), " actors never finish a step: ", absl::StrJoin(unfinished, ", ")));
  }
  if (!player.IsBack())
    return absl::FailedPreconditionError("after one step the registers are not as they were before");
  return absl::OkStatus();
}

std::optional<std::vector<Wait>> FindDeadCycle(const WaitGraph& graph) {
  const Expansion acts(graph);
  const std::vector<bool> stuck = Stuck(acts);
  std::vector<Wait> best;
  for (int v = 0; v < acts.size(); ++v) {
    if (!stuck[v]) continue;
    std::vector<Wait> cycle = ShortestCycleFrom(acts, stuck, v, best.empty() ? acts.size() + 1 : best.size());
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
