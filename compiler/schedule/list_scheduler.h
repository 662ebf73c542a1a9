// Schedules made by playing: an idle rank takes one of the arrived actions, by a policy.
//
// Micro-batches of a chunk come in order. Memory cannot lead to a deadlock. F of a micro-batch is let in only if the
// oldest micro-batch that has not yet passed all chunks of the rank still finds room beside all newer ones:
//
//   activations of one micro-batch in all chunks of the rank + what newer ones keep <= the cap
//
// So the oldest micro-batch of all can always go on, on every rank, and its memory is free behind it.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/schedule/costs.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

struct ListProblem {
  int num_ranks = 0;
  std::vector<int> rank_of_chunk;
  int num_micro_batches = 0;
  ScheduleCosts costs;
  std::vector<int64_t> most_activations;  // by rank; empty: no cap
  enum class Backward { kNone, kWhole, kSplit } backward = Backward::kSplit;
};

// I, or B, goes before F, and F before W. Among several F the one that is furthest along goes first, among several I
// the oldest.
struct ListPolicy {
  // The rank waits for an I or F that will arrive within this part of the time of a W, instead of beginning the W.
  double patience = 0;
  // How far forward of a chunk may run ahead of backward: this number of micro-batches for each chunk from it to the
  // end. 1F1B has 1; more keeps ranks busy where values travel for long.
  double ahead = std::numeric_limits<double>::infinity();
  // F first if the rank did no F last, so that forward of other ranks does not starve while backward is always ready.
  bool in_turn = false;
};

// n log n. REQUIRES: CheckCosts is OK, chunks lie on ranks, and the cap of every rank has room for a micro-batch.
Schedule MakeListSchedule(const ListProblem& problem, const ListPolicy& policy);

// The activations of one micro-batch in all chunks of each rank.
std::vector<int64_t> ActivationsOfOne(int num_ranks, const std::vector<int>& rank_of_chunk, const ScheduleCosts& costs);

// InvalidArgument if a chunk lies on no rank, or there are no micro-batches.
absl::Status CheckChunks(int num_ranks, const std::vector<int>& rank_of_chunk, int num_micro_batches);

}  // namespace oneflow
