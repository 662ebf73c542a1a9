// Schedules by their names, as a job's config has them.
//
//   gpipe  1f1b  interleaved  zb-h1  zb-v  dualpipe-v  forward  greedy  file:PATH
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/schedule/costs.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

struct ScheduleRequest {
  std::string name;
  int num_ranks = 1;
  int num_micro_batches = 1;
  // 0: the least that the schedule needs.
  int chunks_per_rank = 0;
  // The rank of each chunk, for schedules that leave it open: greedy and forward. Empty: round robin.
  std::vector<int> rank_of_chunk;
  // interleaved: micro-batches that go through a chunk one behind the other; 0: as many as fill the pipeline.
  int group = 0;
  // greedy: what actions cost, by chunk; none: all F, I and W the same.
  ScheduleCosts costs;
  // greedy: I and W by themselves, else B.
  bool split_backward = true;
  // greedy: the most activations by rank, in the unit of the costs; empty: what 1F1B and ZB-H1 need on the rank that
  // needs most.
  std::vector<int64_t> most_activations;
};

// A schedule that CheckSchedule accepts, for these ranks and micro-batches. InvalidArgument, with the possible numbers,
// if there is no such schedule, or if a file holds another; ResourceExhausted if its caps are too low; NotFound if the
// file cannot be read.
absl::StatusOr<Schedule> MakeSchedule(const ScheduleRequest& request);

}  // namespace oneflow
