#include "compiler/plan/orders.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/plan/sections.h"

namespace oneflow {

std::vector<PhysicalOrder> OrdersOf(const PlanInput& input, const std::vector<PhysicalActor>& actors) {
  std::vector<PhysicalOrder> orders;
  const bool splits = SplitsBackward(*input.schedule);
  std::map<std::pair<int, int>, std::vector<int>> of_section;  // by class, by section; chains ascend by level
  for (size_t a = 0; a < actors.size(); ++a) {
    const Chain& chain = input.chains.chains[actors[a].chain];
    if (chain.section == 0) continue;
    for (const int c : input.classes.In(actors[a].placement))
      of_section[{c, chain.section}].push_back(static_cast<int>(a));
  }
  for (int c = 0; c < input.classes.size(); ++c) {
    const int rank = input.classes.ranks(c)[0];
    if (input.mesh.whole().IndexOf(rank) < 0) continue;
    PhysicalOrder order{.rank_class = c};
    for (const Action& action : input.schedule->ranks[input.mesh.StageOf(rank)]) {
      for (const int section : SectionsOf(action, splits)) {
        const auto found = of_section.find({c, section});
        if (found == of_section.end()) continue;
        order.actors.insert(order.actors.end(), found->second.begin(), found->second.end());
      }
    }
    if (!order.actors.empty()) orders.push_back(std::move(order));
  }
  return orders;
}

ActPlaces::ActPlaces(const std::vector<PhysicalOrder>& orders, size_t num_actors) : of_actor_(num_actors) {
  for (size_t o = 0; o < orders.size(); ++o) {
    for (size_t place = 0; place < orders[o].actors.size(); ++place) {
      std::vector<InOrder>& in = of_actor_[orders[o].actors[place]];
      if (in.empty() || in.back().order != o) in.push_back({o, {}});
      in.back().places.push_back(place);
    }
  }
}

int ActPlaces::MostAhead(int first, int second) const {
  const size_t known = of_actor_.size();
  if (static_cast<size_t>(first) >= known || static_cast<size_t>(second) >= known) return 0;
  int most = 0;
  auto other = of_actor_[second].begin();
  for (const InOrder& in : of_actor_[first]) {
    while (other != of_actor_[second].end() && other->order < in.order) ++other;
    if (other == of_actor_[second].end()) break;
    if (other->order != in.order) continue;
    size_t done = 0;  // acts of the other actor before this one
    for (size_t i = 0; i < in.places.size(); ++i) {
      while (done < other->places.size() && other->places[done] < in.places[i]) ++done;
      most = std::max(most, static_cast<int>(i + 1) - static_cast<int>(done));
    }
  }
  return most;
}

}  // namespace oneflow
