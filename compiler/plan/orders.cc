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
    for (const Action& action : input.schedule->ranks[input.mesh.CoordinateOf(rank, "pp")]) {
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

int MostAhead(const std::vector<PhysicalOrder>& orders, int first, int second) {
  int most = 0;
  for (const PhysicalOrder& order : orders) {
    int ahead = 0, most_here = 0, seen = 0;
    for (const int actor : order.actors) {
      if (actor == first) most_here = std::max(most_here, ++ahead);
      if (actor == second) --ahead, ++seen;
    }
    if (seen > 0) most = std::max(most, most_here);
  }
  return most;
}

}  // namespace oneflow
