#include "compiler/plan/direct_order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/plan/own_waits.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

using Bits = std::vector<uint64_t>;

bool IsLoaded(const PhysicalPlan& plan, const PhysicalRegister& reg) {
  const PhysicalActor& from = plan.actors[reg.producer];
  return QueueKindOf(from.queue).of_tier && from.acts_per_step == 1 && reg.variable < 0 && reg.slot_bytes > 0 &&
         reg.slots == 1 && reg.initially_filled == 0 && !reg.consumers.empty();
}

// Whether the ranks that have it read it, each its own.
bool IsReadWhereItIs(const PhysicalPlan& plan, const PhysicalRegister& reg, const std::vector<Reading>& readings) {
  const auto is_there = [&](int actor) { return plan.actors[actor].placement == reg.placement; };
  return is_there(reg.producer) && std::all_of(reg.consumers.begin(), reg.consumers.end(), is_there) &&
         std::all_of(readings.begin(), readings.end(),
                     [](const Reading& x) { return x.own && x.reach.has_value() && *x.reach == 0; });
}

void Unite(const Bits& more, Bits& bits) {
  for (size_t word = 0; word < bits.size(); ++word) bits[word] |= more[word];
}

}  // namespace

DirectOrder::DirectOrder(const PlanInput& input, const PhysicalPlan& plan) : place_(plan.registers.size(), -1) {
  if (std::none_of(plan.registers.begin(), plan.registers.end(),
                   [&](const PhysicalRegister& reg) { return IsLoaded(plan, reg); })) {
    return;
  }
  const OwnWaits waits(input, plan);
  if (waits.sorted().size() < static_cast<size_t>(waits.num_acts())) return;  // the plan will be refused
  std::map<Placement, std::vector<int>> by_placement;
  std::map<int, std::vector<int>> by_act;  // that fills them
  for (size_t r = 0; r < plan.registers.size(); ++r) {
    const PhysicalRegister& reg = plan.registers[r];
    if (!IsLoaded(plan, reg) || !IsReadWhereItIs(plan, reg, waits.readings()[r])) continue;
    by_placement[reg.placement].push_back(static_cast<int>(r));
    by_act[waits.first_act(reg.producer)].push_back(static_cast<int>(r));
  }
  for (const auto& [placement, members] : by_placement) LookAt(placement, members, plan, waits);
  for (const int act : waits.sorted()) {
    const auto filled = by_act.find(act);
    if (filled != by_act.end()) registers_.insert(registers_.end(), filled->second.begin(), filled->second.end());
  }
}

void DirectOrder::LookAt(const Placement& placement, const std::vector<int>& members, const PhysicalPlan& plan,
                         const OwnWaits& waits) {
  std::map<int, std::vector<int>> read_by;  // by act: the readings that are over with it
  int num_readings = 0;
  for (const int r : members) {
    const PhysicalRegister& reg = plan.registers[r];
    place_[r] = static_cast<int>(filled_.size());
    filled_.push_back({members[0], num_readings, static_cast<int>(reg.consumers.size()), {}, {}});
    for (const int actor : reg.consumers) {
      read_by[waits.first_act(actor) + NumActs(plan.actors[actor]) - 1].push_back(num_readings++);
    }
  }
  // By act: what has been read when it is over, of its step and of the one before.
  std::vector<Bits> in_step(waits.num_acts()), in_last_step(waits.num_acts());
  const auto is_here = [&](int act) { return plan.actors[waits.actor_of(act)].placement == placement; };
  for (const int act : waits.sorted()) {
    if (!is_here(act)) continue;
    in_step[act].assign((num_readings + 63) / 64, 0);
    for (const OwnWaits::Wait& wait : waits.waits(act)) {
      if (!wait.earlier && is_here(wait.on)) Unite(in_step[wait.on], in_step[act]);
    }
    const auto read = read_by.find(act);
    if (read == read_by.end()) continue;
    for (const int reading : read->second) in_step[act][reading / 64] |= uint64_t{1} << (reading % 64);
  }
  for (const int act : waits.sorted()) {
    if (!is_here(act)) continue;
    in_last_step[act].assign((num_readings + 63) / 64, 0);
    for (const OwnWaits::Wait& wait : waits.waits(act)) {
      if (is_here(wait.on)) Unite(wait.earlier ? in_step[wait.on] : in_last_step[wait.on], in_last_step[act]);
    }
  }
  for (const int r : members) {
    const int act = waits.first_act(plan.registers[r].producer);
    filled_[place_[r]].in_step = in_step[act];
    filled_[place_[r]].in_last_step = in_last_step[act];
  }
}

bool DirectOrder::TakeTurns(int first, int second) const {
  const auto has = [](const Bits& bits, const Filled& of) {
    for (int x = of.first_reading; x < of.first_reading + of.num_readings; ++x) {
      if ((bits[x / 64] >> (x % 64) & 1) == 0) return false;
    }
    return true;
  };
  const Filled &a = filled_[place_[first]], &b = filled_[place_[second]];
  return a.group == b.group && has(b.in_step, a) && has(a.in_last_step, b);
}

}  // namespace oneflow
