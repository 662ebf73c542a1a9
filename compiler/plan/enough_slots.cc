#include "compiler/plan/enough_slots.h"

#include <algorithm>
#include <utility>

#include "compiler/plan/liveness.h"

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

// Of the registers that the circle waits for a free slot of; -1 if it is made of data and turns.
int CheapestOn(const std::vector<Wait>& cycle, const PhysicalPlan& plan) {
  int cheapest = -1;
  for (const Wait& wait : cycle) {
    if (!wait.credit || plan.registers[wait.reg].variable >= 0 || plan.registers[wait.reg].initially_filled > 0)
      continue;
    const auto price = [&](int reg) { return std::pair(plan.registers[reg].slot_stride, reg); };
    if (cheapest < 0 || price(wait.reg) < price(cheapest)) cheapest = wait.reg;
  }
  return cheapest;
}

}  // namespace

void GiveEnoughSlots(PhysicalPlan& plan) {
  if (plan.orders.empty()) return;  // chains have no circle
  WaitGraph graph = WaitsOf(plan);
  if (!CheckRates(graph).ok()) return;
  while (!SimulateStep(graph).ok()) {
    const std::optional<std::vector<Wait>> cycle = FindDeadCycle(graph);
    const int reg = cycle.has_value() ? CheapestOn(*cycle, plan) : -1;
    if (reg < 0) return;
    ++plan.registers[reg].slots;
    ++graph.registers[reg].slots;
  }
}

}  // namespace oneflow
