// Classes of ranks: those with the same placements of the program, so that they hold the same things.
//
//   mesh [pp=2,dp=2], a loss fetched from rank 2        classes {0,1} {2} {3}
//
// Planning costs per class: offsets are equal on all ranks of a class, and all other differences are rules in mesh
// coordinates. A pipeline of 64 stages on 3,072 ranks has some hundred classes.
#pragma once

#include <map>
#include <vector>

#include "oneflow_core/graph.h"

namespace oneflow {

class RankClasses {
 public:
  // The coarsest classes that make up all placements of nodes and values in `graphs`. Classes are ordered by their
  // first rank.
  RankClasses(const std::vector<const Graph*>& graphs, int num_ranks);

  int size() const { return static_cast<int>(ranks_.size()); }
  // Ascending.
  const std::vector<int>& ranks(int index) const { return ranks_[index]; }
  int of_rank(int rank) const { return of_rank_[rank]; }
  // The classes that make up a placement, ascending. REQUIRES: the placement is in one of the graphs.
  const std::vector<int>& In(const Placement& placement) const { return in_.at(placement); }

 private:
  std::vector<std::vector<int>> ranks_;
  std::vector<int> of_rank_;
  std::map<Placement, std::vector<int>> in_;
};

}  // namespace oneflow
