// Where the kernels' time goes, op by op: what the workers timed beside what the plan says each op has to do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/bench/measurement.h"
#include "tools/study/sim/op_work.h"

namespace oneflow {

struct OpRow {
  std::string op;
  double calls = 0;        // per step
  double seconds = 0;      // per step, summed over ranks
  double share = 0;        // of the ranks' time inside the run
  double flops_per_s = 0;  // 0: unknown
  double bytes_per_s = 0;
  double floor_seconds = 0;  // per step; 0: unknown
};
// Slowest first.
std::vector<OpRow> OpTable(const Counters& counters, const std::map<std::string, OpWork>& work);

}  // namespace oneflow
