#include "compiler/plan/enough_slots.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/plan/liveness.h"
#include "compiler/plan/step_player.h"

namespace oneflow {
namespace {

int ActsPerSlotOf(const std::vector<PhysicalPort>& ports, int reg) {
  return std::find_if(ports.begin(), ports.end(), [&](const PhysicalPort& port) { return port.reg == reg; })
      ->acts_per_slot;
}

WaitGraph WaitsOf(const PhysicalPlan& plan) {
  WaitGraph graph;
  for (const PhysicalActor& actor : plan.actors) graph.actors.push_back({actor.name, actor.acts_per_step});
  for (size_t r = 0; r < plan.registers.size(); ++r) {
    const PhysicalRegister& reg = plan.registers[r];
    const int id = static_cast<int>(r);
    WaitGraph::Register& to = graph.registers.emplace_back();
    to = {reg.name,
          {reg.producer, ActsPerSlotOf(plan.actors[reg.producer].outputs, id)},
          {},
          reg.slots,
          reg.initially_filled};
    for (const int consumer : reg.consumers)
      to.consumers.push_back({consumer, ActsPerSlotOf(plan.actors[consumer].inputs, id)});
  }
  for (const PhysicalOrder& order : plan.orders) graph.orders.push_back(order.actors);
  return graph;
}

// Plays a step of a plan's wait graph; at a deadlock it adds slots and continues.
class SlotGiver {
 public:
  SlotGiver(PhysicalPlan& plan, WaitGraph graph) : plan_(plan), graph_(std::move(graph)), player_(graph_) {}

  void Run() {
    std::deque<int> all(graph_.actors.size());
    std::iota(all.begin(), all.end(), 0);
    player_.PlayFrom(std::move(all));
    for (int actor = 0; actor < static_cast<int>(graph_.actors.size()); ++actor) {
      while (!player_.WaitsOf(actor).empty()) {
        const int reg = CheapestOn(CircleFrom(actor));
        if (reg < 0) return;
        ++plan_.registers[reg].slots;
        ++graph_.registers[reg].slots;
        player_.PlayFrom({graph_.registers[reg].producer.actor});
      }
    }
  }

 private:
  // At a deadlock a waiting actor waits for another waiting one, so following waits leads into a cycle. Credits are
  // followed first: several cycles may pass through an actor, and slots can break those.
  std::vector<Wait> CircleFrom(int actor) const {
    std::vector<Wait> path;
    absl::flat_hash_map<int, size_t> place;  // of an actor on the path
    while (place.emplace(actor, path.size()).second) {
      const std::vector<Wait> waits = player_.WaitsOf(actor);
      const auto credit = std::find_if(waits.begin(), waits.end(), [&](const Wait& wait) { return IsToBeGiven(wait); });
      path.push_back(credit == waits.end() ? waits.front() : *credit);
      actor = path.back().on;
    }
    path.erase(path.begin(), path.begin() + static_cast<ptrdiff_t>(place.at(actor)));
    return path;
  }

  // Whether it waits for a slot of a register that may get more: not one that is state.
  bool IsToBeGiven(const Wait& wait) const {
    return wait.credit && plan_.registers[wait.reg].variable < 0 && plan_.registers[wait.reg].initially_filled == 0;
  }

  // -1: the cycle consists of data and turns.
  int CheapestOn(const std::vector<Wait>& circle) const {
    int cheapest = -1;
    const auto price = [&](int reg) { return std::pair(plan_.registers[reg].slot_stride, reg); };
    for (const Wait& wait : circle) {
      if (IsToBeGiven(wait) && (cheapest < 0 || price(wait.reg) < price(cheapest))) cheapest = wait.reg;
    }
    return cheapest;
  }

  PhysicalPlan& plan_;
  WaitGraph graph_;
  StepPlayer player_;  // of graph_, whose slots it looks up
};

}  // namespace

void GiveEnoughSlots(PhysicalPlan& plan) {
  if (plan.orders.empty()) return;  // chains have no cycle
  WaitGraph graph = WaitsOf(plan);
  if (CheckRates(graph).ok()) SlotGiver(plan, std::move(graph)).Run();
}

}  // namespace oneflow
