#include "compiler/plan/rank_classes.h"

#include <algorithm>
#include <set>

namespace oneflow {

RankClasses::RankClasses(const std::vector<const Graph*>& graphs, int num_ranks) : of_rank_(num_ranks, 0) {
  for (const Graph* graph : graphs) {
    for (NodeId id = 0; id < graph->num_nodes(); ++id) {
      if (graph->node(id).placement.has_value()) in_.try_emplace(*graph->node(id).placement);
    }
    for (ValueId value = 0; value < graph->num_values(); ++value) {
      if (graph->value(value).dist.has_value()) in_.try_emplace(graph->value(value).dist->placement);
    }
  }
  // Each placement cuts every class into a part inside and a part outside.
  int num_classes = 1;
  for (const auto& [placement, classes] : in_) {
    std::map<int, int> inside;  // old class to new
    for (const int rank : placement.ranks()) {
      const auto [it, inserted] = inside.try_emplace(of_rank_[rank], num_classes);
      num_classes += inserted;
      of_rank_[rank] = it->second;
    }
  }
  std::map<int, int> by_first_rank;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto [it, inserted] = by_first_rank.try_emplace(of_rank_[rank], static_cast<int>(ranks_.size()));
    if (inserted) ranks_.emplace_back();
    of_rank_[rank] = it->second;
    ranks_[it->second].push_back(rank);
  }
  for (auto& [placement, classes] : in_) {
    std::set<int> found;
    for (const int rank : placement.ranks()) found.insert(of_rank_[rank]);
    classes.assign(found.begin(), found.end());
  }
}

}  // namespace oneflow
