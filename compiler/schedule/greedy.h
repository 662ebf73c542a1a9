// A schedule for measured costs: unequal from chunk to chunk, with transfers, under a cap of memory.
//
// Orders by rule (generators.h) assume that actions of a kind take equally long. Here a rank takes what is ready, and W
// when nothing else is (list_scheduler.h), by each policy of a short table. The known orders are played with the same
// costs too, where chunks lie as they need them and the cap has room. The shortest wins, the first of equal ones. So
// the result is never longer than any of these, ZB-H1 among them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/schedule/list_scheduler.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

struct GreedySchedule {
  Schedule schedule;
  double makespan = 0;
  std::string from;  // the policy or the order that won, for people
};

// Deterministic; n log n in the number of actions, a dozen times over. ListProblem::backward says whether backward is
// split. InvalidArgument if costs or chunks are wrong, ResourceExhausted if a cap has no room for one micro-batch.
absl::StatusOr<GreedySchedule> MakeGreedySchedule(const ListProblem& problem);

// The needs of 1F1B and ZB-H1 on the rank that needs most: as many micro-batches as there are ranks, of all chunks of
// the rank. By rank. REQUIRES: CheckCosts and CheckChunks are OK.
std::vector<int64_t> ActivationsLike1F1B(const ListProblem& problem);

}  // namespace oneflow
