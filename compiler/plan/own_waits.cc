#include "compiler/plan/own_waits.h"

#include "oneflow_core/arithmetic.h"
#include "sbp/boxing_group.h"

namespace oneflow {
namespace {

// Acts of a step that fill, or read, one slot of a register.
int ActsPerSlot(const PhysicalPort& port, const PhysicalActor& actor) {
  return port.acts_per_slot > 1 ? NumActs(actor) : 1;
}

const PhysicalPort& PortOf(const std::vector<PhysicalPort>& ports, int reg) {
  return *std::find_if(ports.begin(), ports.end(), [&](const PhysicalPort& port) { return port.reg == reg; });
}

}  // namespace

OwnWaits::OwnWaits(const PlanInput& input, const PhysicalPlan& plan) : input_(input), plan_(plan) {
  for (const PhysicalActor& actor : plan.actors) {
    first_act_.push_back(static_cast<int>(actor_of_.size()));
    actor_of_.insert(actor_of_.end(), NumActs(actor), static_cast<int>(first_act_.size()) - 1);
  }
  waits_.resize(actor_of_.size());
  for (size_t a = 0; a < plan.actors.size(); ++a) {
    const int acts = NumActs(plan.actors[a]);
    for (int act = 0; act < acts; ++act) Add(first_act_[a] + act, static_cast<int>(a), act - 1);
  }
  for (size_t r = 0; r < plan.registers.size(); ++r) AddRegister(static_cast<int>(r));
  Sort();
}

// `act` waits for act `other_act` of an actor, counted from the beginning of this step.
void OwnWaits::Add(int act, int other, int64_t other_act) {
  const int64_t steps_back = -FloorDiv(other_act, NumActs(plan_.actors[other]));
  if (steps_back > 1) return;  // it follows from the wait of the act between
  const int64_t in_step = other_act + steps_back * NumActs(plan_.actors[other]);
  waits_[act].push_back({static_cast<int>(first_act_[other] + in_step), steps_back == 1});
}

Reading OwnWaits::ReadingOf(const PhysicalActor& actor, int id) const {
  const bool sends = actor.senders.has_value();
  Reading reading;
  bool boxed = false, regular = false;
  for (size_t i = 0; i < actor.instructions.size(); ++i) {
    const PhysicalInstruction& x = actor.instructions[i];
    const bool reads = std::any_of(x.inputs.begin(), x.inputs.end(), [&](const PhysicalOperand& operand) {
      return operand.place == PhysicalOperand::Place::kRegister && operand.index == id;
    });
    if (reads) reading.last_instruction = EndOfUse(actor, static_cast<int>(i));
    const Node& node = input_.graph.node(x.node);
    if (!input_.ops.Is(node.op, OpKind::kBoxing)) continue;
    const Value& from = input_.graph.value(node.inputs[0]);
    const std::optional<BoxingReach> reach =
        ReachOf(from.type.shape, *from.dist, *input_.graph.value(node.outputs[0]).dist);
    regular = regular || reach.has_value();
    if (!reads) continue;
    boxed = true;
    reading.own = reading.own || (reach.has_value() && (sends || !reach->some));
    if (sends) continue;
    if (!reach.has_value()) reading.reach.reset();
    if (!reach.has_value()) continue;
    if (reading.reach.has_value()) *reading.reach |= reach->axes;
    if (!reach->some) reading.groups.push_back(reach->axes);
  }
  // A register that is no boxing's source is read on its own rank; where ranks send, by those with work to do.
  if (!boxed) reading.own = !sends || regular;
  if (plan_.registers[id].others_only) reading.own = false;
  return reading;
}

void OwnWaits::AddRegister(int id) {
  const PhysicalRegister& reg = plan_.registers[id];
  const PhysicalActor& from = plan_.actors[reg.producer];
  const int from_acts = ActsPerSlot(PortOf(from.outputs, id), from);
  std::vector<Reading>& readings = readings_.emplace_back();
  for (const int consumer : reg.consumers) {
    const PhysicalActor& to = plan_.actors[consumer];
    readings.push_back(ReadingOf(to, id));
    if (!readings.back().own) continue;
    const int to_acts = ActsPerSlot(PortOf(to.inputs, id), to);
    for (int act = 0; act < NumActs(to); ++act) {
      const int64_t fill = act / to_acts - reg.initially_filled;
      Add(first_act_[consumer] + act, reg.producer, (fill + 1) * from_acts - 1);
    }
    for (int act = 0; act < NumActs(from); ++act) {
      const int64_t freed = act / from_acts + reg.initially_filled - reg.slots;
      Add(first_act_[reg.producer] + act, consumer, (freed + 1) * to_acts - 1);
    }
  }
}

void OwnWaits::Sort() {
  std::vector<int> missing(num_acts(), 0);
  std::vector<std::vector<int>> waiters(num_acts());
  for (int act = 0; act < num_acts(); ++act) {
    for (const Wait& wait : waits_[act]) {
      if (wait.earlier) continue;
      waiters[wait.on].push_back(act);
      ++missing[act];
    }
    if (missing[act] == 0) sorted_.push_back(act);
  }
  for (size_t head = 0; head < sorted_.size(); ++head) {
    for (const int waiter : waiters[sorted_[head]]) {
      if (--missing[waiter] == 0) sorted_.push_back(waiter);
    }
  }
}

}  // namespace oneflow
