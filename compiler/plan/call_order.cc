#include "compiler/plan/call_order.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/plan/step_player.h"

namespace oneflow {
namespace {

WaitGraph WaitGraphOf(const PhysicalPlan& plan) {
  WaitGraph graph;
  for (const PhysicalActor& actor : plan.actors) {
    graph.actors.push_back({absl::StrCat(actor.name, "@", actor.rank), actor.acts_per_step});
  }
  for (const PhysicalRegister& reg : plan.registers) {
    graph.registers.push_back({reg.name, {reg.producer}, {}, reg.slots, reg.initially_filled});
    for (int consumer : reg.consumers) graph.registers.back().consumers.push_back({consumer});
  }
  for (size_t a = 0; a < plan.actors.size(); ++a) {
    for (const PhysicalPort& port : plan.actors[a].outputs) {
      graph.registers[port.reg].producer.acts_per_slot = port.acts_per_slot;
    }
    for (const PhysicalPort& port : plan.actors[a].inputs) {
      for (WaitGraph::Port& consumer : graph.registers[port.reg].consumers) {
        if (consumer.actor == static_cast<int>(a)) consumer.acts_per_slot = port.acts_per_slot;
      }
    }
  }
  return graph;
}

// Plays a step on ranks that do one thing at a time, what is most urgent first. Time is counted in instructions: the
// order only has to be good where these are about alike.
class Playing {
 public:
  Playing(const PhysicalPlan& plan, const WaitGraph& graph)
      : plan_(plan), player_(graph), free_at_(plan.ranks.size(), 0), orders_(plan.ranks.size()) {
    std::vector<bool> led(plan.actors.size(), false);
    for (const std::vector<int>& group : graph.together) {
      for (int actor : group) led[actor] = true;
      units_.push_back({group, true});
    }
    for (size_t a = 0; a < plan.actors.size(); ++a) {
      if (!led[a]) units_.push_back({{static_cast<int>(a)}, false});
    }
    std::stable_sort(units_.begin(), units_.end(), [&](const Unit& a, const Unit& b) {
      const int first_a = a.actors[0], first_b = b.actors[0];
      return std::pair(-plan.actors[first_a].priority, first_a) < std::pair(-plan.actors[first_b].priority, first_b);
    });
  }

  // The orders of calls, by rank. They lack what never happens.
  std::vector<std::vector<int>> Run() {
    while (true) {
      const auto next = std::find_if(units_.begin(), units_.end(), [&](const Unit& unit) { return CanStart(unit); });
      if (next != units_.end()) {
        Start(*next);
      } else if (!Wait()) {
        return std::move(orders_);
      }
    }
  }
  bool finished() const { return player_.Unfinished().empty(); }

 private:
  struct Unit {
    std::vector<int> actors;
    bool calls = false;
  };

  bool CanStart(const Unit& unit) const {
    for (int actor : unit.actors) {
      if (free_at_[plan_.actors[actor].rank] > now_) return false;
    }
    return player_.CanAct(unit.actors[0]);
  }

  void Start(const Unit& unit) {
    player_.Act(unit.actors[0]);
    for (int id : unit.actors) {
      const PhysicalActor& actor = plan_.actors[id];
      free_at_[actor.rank] = now_ + static_cast<int64_t>(actor.instructions.size());
      if (unit.calls) orders_[actor.rank].push_back(id);
    }
  }

  // Until the next rank is free; false if all are.
  bool Wait() {
    int64_t next = INT64_MAX;
    for (int64_t time : free_at_) {
      if (time > now_) next = std::min(next, time);
    }
    if (next == INT64_MAX) return false;
    now_ = next;
    return true;
  }

  const PhysicalPlan& plan_;
  StepPlayer player_;
  std::vector<Unit> units_;  // most urgent first
  std::vector<int64_t> free_at_;
  std::vector<std::vector<int>> orders_;
  int64_t now_ = 0;
};

}  // namespace

std::vector<std::vector<int>> CallGroups(const PlanInput& input, const PhysicalPlan& plan) {
  std::vector<int> above(plan.actors.size());  // a forest: towards the first actor of the group
  std::iota(above.begin(), above.end(), 0);
  const auto root = [&](int actor) {
    while (above[actor] != actor) actor = above[actor];
    return actor;
  };
  std::map<std::pair<NodeId, std::vector<int>>, int> first_of_call;
  std::vector<bool> calls(plan.actors.size(), false);
  for (int a = 0; a < static_cast<int>(plan.actors.size()); ++a) {
    for (const PhysicalInstruction& instruction : plan.actors[a].instructions) {
      if (instruction.role != PhysicalInstruction::Role::kCall) continue;
      calls[a] = true;
      const BoxingShare& share = *input.boxings.by_node.at(instruction.node).ShareOf(plan.actors[a].rank);
      const int first = first_of_call.emplace(std::pair(instruction.node, share.members), a).first->second;
      const int x = root(first), y = root(a);
      above[std::max(x, y)] = std::min(x, y);
    }
  }
  std::map<int, std::vector<int>> groups;
  for (int a = 0; a < static_cast<int>(plan.actors.size()); ++a) {
    if (calls[a]) groups[root(a)].push_back(a);
  }
  std::vector<std::vector<int>> result;
  for (auto& [first, group] : groups) result.push_back(std::move(group));
  return result;
}

absl::Status OrderCalls(const PlanInput& input, PhysicalPlan& plan) {
  WaitGraph graph = WaitGraphOf(plan);
  graph.together = CallGroups(input, plan);
  plan.call_orders.assign(plan.ranks.size(), {});
  if (graph.together.empty()) return absl::OkStatus();
  OF_RETURN_IF_ERROR(CheckRates(graph));
  Playing playing(plan, graph);
  plan.call_orders = playing.Run();
  if (playing.finished()) return absl::OkStatus();
  OF_RETURN_IF_ERROR(CheckLive(graph));
  return absl::InternalError("no order of collectives was found, but the plan is free of deadlock");
}

}  // namespace oneflow
