// Which ranks of a plan have to be played, so that the times of all are known: ranks that do the same at the same times
// are played once. A plan for 3,072 devices costs what its different ranks cost.
//
//   pp2 x dp3     0 ─ 1 ─ 2        played: 0, which fetches the loss; 1 for 1 and 2; 3 for 3; 4 for 4 and 5
//                 3 ─ 4 ─ 5        (what rank 0 has more to do, the ranks that it meets wait for)
//
// Ranks are alike if they have the same actors, whose acts cost the same and begin in the same orders, and if each of
// these exchanges messages and calls with ranks that are alike, as far away. That is the coarsest partition that is
// stable under refinement: from what ranks are by themselves, split until those of a block agree about the blocks of
// all whom they meet. Times of acts are then equal within blocks: whatever any act waits for comes at one time on all
// of them. Ranks that share a card wait for one another there, the lower one goes first: they are told apart by their
// place at the card, and are alike only together with all who share it; who sends to several cards on other hosts
// shares his with whom he sends to.
//
// Nothing is taken to be symmetric because it looks so: whom a rank meets is found out for every one of them.
#pragma once

#include <vector>

#include "tools/study/sim/priced_ranks.h"

namespace oneflow {

struct PlayedRanks {
  std::vector<int> played;      // ascending
  std::vector<int> stands_for;  // by rank: the played rank that stands for it
};

// `alone`: ranks that are to be played whatever they are like. Errors of PricedRanks::Of.
absl::StatusOr<PlayedRanks> FindPlayedRanks(PricedRanks& ranks, const std::vector<int>& alone);

// All ranks play themselves.
PlayedRanks PlayAll(int num_ranks);

}  // namespace oneflow
