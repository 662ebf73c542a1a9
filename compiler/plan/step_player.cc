#include "compiler/plan/step_player.h"

#include <algorithm>

namespace oneflow {

StepPlayer::StepPlayer(const WaitGraph& graph)
    : graph_(graph),
      acts_(graph.actors.size(), 0),
      in_(acts_.size()),
      out_(acts_.size()),
      with_(acts_.size()),
      orders_of_(acts_.size()),
      position_(graph.orders.size(), 0) {
  for (size_t r = 0; r < graph.registers.size(); ++r) {
    const WaitGraph::Register& reg = graph.registers[r];
    marking_.push_back({reg.initially_filled, std::vector<int64_t>(reg.consumers.size(), 0)});
    out_[reg.producer.actor].push_back(r);
    for (size_t c = 0; c < reg.consumers.size(); ++c) in_[reg.consumers[c].actor].push_back({r, c});
  }
  for (size_t a = 0; a < with_.size(); ++a) with_[a] = {static_cast<int>(a)};
  for (const std::vector<int>& group : graph.together) {
    for (int actor : group) with_[actor] = group;
  }
  for (size_t o = 0; o < graph.orders.size(); ++o) {
    for (int actor : graph.orders[o]) {
      std::vector<int>& orders = orders_of_[actor];
      if (orders.empty() || orders.back() != static_cast<int>(o)) orders.push_back(static_cast<int>(o));
    }
  }
}

bool StepPlayer::CanAct(int actor) const {
  return std::all_of(with_[actor].begin(), with_[actor].end(), [this](int one) { return OneCanAct(one); });
}

void StepPlayer::Act(int actor) {
  for (int one : with_[actor]) ActOne(one);
}

void StepPlayer::PlayFrom(std::deque<int> actors) {
  while (!actors.empty()) {
    const int actor = actors.front();
    actors.pop_front();
    if (!CanAct(actor)) continue;
    Act(actor);
    actors.push_back(actor);
    ForEachTouched(actor, [&](int other) { actors.push_back(other); });
  }
}

std::vector<Wait> StepPlayer::WaitsOf(int actor) const {
  std::vector<Wait> waits;
  if (IsDone(actor)) return waits;
  const auto add = [&](int reg, bool credit, int on) {
    waits.push_back({actor, acts_[actor], reg, credit, on, acts_[on]});
  };
  for (const int order : orders_of_[actor]) {
    if (Turn(order) != actor) add(-1, false, Turn(order));
  }
  for (const auto& [r, c] : in_[actor]) {
    if (marking_[r].filled == marking_[r].freed[c]) add(static_cast<int>(r), false, graph_.registers[r].producer.actor);
  }
  for (const size_t r : out_[actor]) {
    const WaitGraph::Register& reg = graph_.registers[r];
    for (size_t c = 0; c < reg.consumers.size(); ++c) {
      if (marking_[r].filled - marking_[r].freed[c] == reg.slots)
        add(static_cast<int>(r), true, reg.consumers[c].actor);
    }
  }
  return waits;
}

bool StepPlayer::OneCanAct(int actor) const {
  if (IsDone(actor)) return false;
  for (int order : orders_of_[actor]) {
    if (position_[order] == graph_.orders[order].size() || Turn(order) != actor) return false;
  }
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

void StepPlayer::ActOne(int actor) {
  const int done = ++acts_[actor];
  for (int order : orders_of_[actor]) ++position_[order];
  for (const auto& [r, c] : in_[actor]) {
    if (done % graph_.registers[r].consumers[c].acts_per_slot == 0) ++marking_[r].freed[c];
  }
  for (size_t r : out_[actor]) {
    if (done % graph_.registers[r].producer.acts_per_slot == 0) ++marking_[r].filled;
  }
}

std::vector<std::string> StepPlayer::Unfinished() const {
  std::vector<std::string> names;
  for (size_t a = 0; a < acts_.size(); ++a) {
    const WaitGraph::Actor& actor = graph_.actors[a];
    if (acts_[a] < actor.acts_per_step) names.push_back(absl::StrCat("'", actor.name, "' at act ", acts_[a]));
  }
  return names;
}

bool StepPlayer::IsBack() const {
  for (size_t r = 0; r < marking_.size(); ++r) {
    for (int64_t freed : marking_[r].freed) {
      if (marking_[r].filled - freed != graph_.registers[r].initially_filled) return false;
    }
  }
  return true;
}

}  // namespace oneflow
