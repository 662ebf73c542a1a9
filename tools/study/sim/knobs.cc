#include "tools/study/sim/knobs.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

constexpr size_t kMostRegisters = 3;  // whose slots are changed; each takes two simulations

// Acts of the queues of a trait take `factor` times as long; with communication what is sent with messages, too.
SimulatedCosts Scaled(const SimulatedCosts& costs, const pb::Plan& plan, bool QueueKind::*trait, double factor) {
  SimulatedCosts scaled = costs;
  scaled.act = [&costs, &plan, trait, factor](int32_t actor, int64_t act) {
    ActCost cost = costs.act(actor, act);
    if (!(QueueKindOf(plan.actors(actor).queue()).*trait)) return cost;
    cost.ns = static_cast<int64_t>(factor * static_cast<double>(cost.ns));
    cost.link_ns = static_cast<int64_t>(factor * static_cast<double>(cost.link_ns));
    return cost;
  };
  if (trait != &QueueKind::moves_between_ranks || !costs.shipment_ns) return scaled;
  scaled.shipment_ns = [&costs, factor](int32_t from, int64_t act, int32_t to, int32_t register_id) {
    return static_cast<int64_t>(factor * static_cast<double>(costs.shipment_ns(from, act, to, register_id)));
  };
  return scaled;
}

// Names of the registers that the critical path goes along most, of those that hold more than a variable.
std::vector<std::string> CriticalRegisters(const pb::Plan& plan, const TraceSummary& base) {
  std::map<std::string, int64_t> ns;
  for (const auto& [edge, time] : base.path.edges) {
    if (edge.register_id < 0 || plan.registers(edge.register_id).initially_filled() > 0) continue;
    ns[plan.registers(edge.register_id).name()] += time.total;
  }
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [name, total] : ns) sorted.push_back({-total, name});
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMostRegisters, sorted.size()); ++i) names.push_back(sorted[i].second);
  return names;
}

class KnobTurner {
 public:
  KnobTurner(const pb::Program& program, int64_t steps, const TraceSummary& base)
      : program_(program), steps_(steps), plan_(base.steps.plan) {}

  absl::Status Try(std::string what, const pb::Program& program, const SimulatedCosts& costs) {
    const absl::StatusOr<Simulation> simulation = Simulate(program, plan_, steps_, costs);
    if (absl::IsFailedPrecondition(simulation.status())) {
      knobs_.push_back({std::move(what), -1});
      return absl::OkStatus();
    }
    OF_RETURN_IF_ERROR(simulation.status());
    OF_ASSIGN_OR_RETURN(const TraceSteps steps, FindSteps(simulation->trace, program.plans(plan_).name()));
    knobs_.push_back({std::move(what), steps.median_seconds()});
    return absl::OkStatus();
  }

  // One slot more, then one less, of a register on all ranks. Of several that have this name those with fewest.
  absl::Status TrySlots(const std::string& name, const SimulatedCosts& costs) {
    int slots = INT_MAX;
    for (const pb::Register& reg : program_.plans(plan_).registers()) {
      if (reg.name() == name) slots = std::min(slots, reg.slots());
    }
    for (const int more : {1, -1}) {
      if (slots + more < 1) continue;
      pb::Program changed = program_;
      for (pb::Register& reg : *changed.mutable_plans(plan_)->mutable_registers()) {
        if (reg.name() == name && reg.slots() == slots) reg.set_slots(slots + more);
      }
      const std::string what = absl::StrCat("register '", name, "': slots from ", slots, " to ", slots + more);
      OF_RETURN_IF_ERROR(Try(what, changed, costs));
    }
    return absl::OkStatus();
  }

  std::vector<Knob> Take() { return std::move(knobs_); }

 private:
  const pb::Program& program_;
  const int64_t steps_;
  const int plan_;
  std::vector<Knob> knobs_;
};

}  // namespace

absl::StatusOr<std::vector<Knob>> TurnKnobs(const pb::Program& program, int64_t steps, const SimulatedCosts& costs,
                                            const TraceSummary& base) {
  const pb::Plan& plan = program.plans(base.steps.plan);
  KnobTurner turner(program, steps, base);
  OF_RETURN_IF_ERROR(
      turner.Try("communication twice as fast", program, Scaled(costs, plan, &QueueKind::moves_between_ranks, 0.5)));
  OF_RETURN_IF_ERROR(
      turner.Try("computing a tenth faster", program, Scaled(costs, plan, &QueueKind::is_main, 1 / 1.1)));
  OF_RETURN_IF_ERROR(turner.Try("messages and waking up for nothing", program,
                                {.act = costs.act,
                                 .shipment_ns = costs.shipment_ns,
                                 .shipment_link = costs.shipment_link,
                                 .stands_for = costs.stands_for}));
  for (const std::string& name : CriticalRegisters(plan, base)) OF_RETURN_IF_ERROR(turner.TrySlots(name, costs));
  return turner.Take();
}

}  // namespace oneflow
