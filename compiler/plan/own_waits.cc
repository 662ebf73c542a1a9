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
  turned_.resize(actor_of_.size());
  for (size_t a = 0; a < plan.actors.size(); ++a) {
    const int acts = NumActs(plan.actors[a]);
    for (int act = 0; act < acts; ++act) Add(first_act_[a] + act, static_cast<int>(a), act - 1);
  }
  for (size_t r = 0; r < plan.registers.size(); ++r) AddRegister(static_cast<int>(r));
  Sort();
}

// Act `other_act` of an actor, counted from the beginning of this step.
std::optional<OwnWaits::Wait> OwnWaits::WaitFor(int other, int64_t other_act) const {
  const int64_t steps_back = -FloorDiv(other_act, NumActs(plan_.actors[other]));
  if (steps_back > 1) return std::nullopt;  // it follows from the wait of the act between
  const int64_t in_step = other_act + steps_back * NumActs(plan_.actors[other]);
  return Wait{static_cast<int>(first_act_[other] + in_step), steps_back == 1};
}

void OwnWaits::Add(int act, int other, int64_t other_act) {
  if (const std::optional<Wait> wait = WaitFor(other, other_act); wait.has_value()) waits_[act].push_back(*wait);
}

int OwnWaits::NumberOfTurn(const Placement& from, const Placement& to) {
  const auto [known, is_new] = turn_of_.try_emplace({from, to}, -1);
  if (!is_new) return known->second;
  const std::vector<std::pair<int, int>> turn = TurnOf(from, to);
  const auto [number, is_first] = turns_.try_emplace(turn, static_cast<int>(undoing_.size()));
  known->second = number->second;
  if (!is_first) return known->second;
  std::vector<std::pair<int, int>> back;
  for (const auto& [reader, read] : turn) back.emplace_back(read, reader);
  std::sort(back.begin(), back.end());
  const auto undoing = turns_.find(back);
  undoing_.push_back(undoing == turns_.end() ? -1 : undoing->second);
  if (undoing != turns_.end()) undoing_[undoing->second] = known->second;
  return known->second;
}

Reading OwnWaits::ReadingOf(const PhysicalActor& actor, int id) {
  const bool sends = actor.senders.has_value();
  Reading reading;
  bool boxed = false, regular = false;
  std::optional<int> turn;  // of all that read it
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
    const DistType& to = *input_.graph.value(node.outputs[0]).dist;
    const int turn_here = reach->one ? NumberOfTurn(from.dist->placement, to.placement) : -1;
    turn = turn.value_or(turn_here) == turn_here ? turn_here : -1;
  }
  if (reading.reach.has_value()) reading.turn = turn.value_or(-1);
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
    const int to_acts = ActsPerSlot(PortOf(to.inputs, id), to);
    if (const int turn = readings.back().turn; turn >= 0 && reg.initially_filled == 0) {
      for (int act = 0; act < NumActs(to); ++act) {
        const auto wait = WaitFor(reg.producer, (act / to_acts + 1) * from_acts - 1);
        if (wait.has_value()) turned_[first_act_[consumer] + act].push_back({*wait, turn});
      }
    }
    if (!readings.back().own) continue;
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
