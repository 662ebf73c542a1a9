// A schedule in time: the begin and end of every action, for given costs.
//
//   begin = the later of: the action before on this rank has ended
//                         its inputs have ended on their ranks, and have travelled
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/costs.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

struct TimeSpan {
  double begin = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<TimeSpan>> ranks;  // by rank and action, as in the schedule; a pair's are the same
  double makespan = 0;
  std::vector<double> idle;  // by rank: the makespan less its busy time
  // By rank, the most activations in use at once. It follows from the order alone.
  std::vector<int64_t> peak;

  // The idle time of the busiest rank as a part of its work: (p - 1)/m for 1F1B with equal chunks. 0 if nobody works.
  double Bubble() const;
};

// Linear time. REQUIRES: CheckSchedule(schedule) and CheckCosts are OK.
Timeline Play(const Schedule& schedule, const ScheduleCosts& costs);

// Only Timeline::peak. REQUIRES: as Play.
std::vector<int64_t> PeakActivations(const Schedule& schedule, const ScheduleCosts& costs);

}  // namespace oneflow
