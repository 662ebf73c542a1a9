#include "compiler/plan/wait_expansion.h"

#include <map>

#include "oneflow_core/arithmetic.h"

namespace oneflow {

WaitExpansion::WaitExpansion(const WaitGraph& graph, Waits waits)
    : graph_(graph), waits_(waits), first_(graph.actors.size(), -1) {
  Number();
  edges_.resize(num_acts_);
  for (int a = 0; a < static_cast<int>(graph.actors.size()); ++a) {
    for (int act = 0; act < graph.actors[a].acts_per_step; ++act) Add(a, act, a, act - 1, -1, false);
  }
  for (size_t r = 0; r < graph.registers.size(); ++r) AddRegister(static_cast<int>(r));
  for (const std::vector<int>& order : graph.orders) AddOrder(order);
}

void WaitExpansion::Number() {
  for (const std::vector<int>& group : graph_.together) {
    for (int actor : group) first_[actor] = num_acts_;
    if (!group.empty()) num_acts_ += graph_.actors[group[0]].acts_per_step;
  }
  for (size_t a = 0; a < graph_.actors.size(); ++a) {
    if (first_[a] >= 0) continue;
    first_[a] = num_acts_;
    num_acts_ += graph_.actors[a].acts_per_step;
  }
}

void WaitExpansion::Add(int actor, int act, int other, int64_t other_act, int reg, bool credit) {
  const int64_t acts = graph_.actors[other].acts_per_step;
  const int64_t step = FloorDiv(other_act, acts);
  if (step < 0 && waits_ == Waits::kWithinStep) return;
  const Wait why{actor, act, reg, credit, other, static_cast<int>(other_act - step * acts)};
  edges_[vertex(actor, act)].push_back({vertex(other, why.on_act), static_cast<int>(-step), why});
}

void WaitExpansion::AddRegister(int id) {
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

void WaitExpansion::AddOrder(const std::vector<int>& order) {
  std::map<int, int> next_act;
  int before = -1;
  for (int actor : order) {
    const int act = next_act[actor]++;
    // Between two acts of one actor there is an edge already.
    if (before >= 0 && before != actor) Add(actor, act, before, next_act[before] - 1, -1, false);
    before = actor;
  }
  // The first waits for the last of the step before.
  if (before >= 0 && before != order.front()) Add(order.front(), 0, before, -1, -1, false);
}

}  // namespace oneflow
