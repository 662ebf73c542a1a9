// Where the kernels' time goes, op by op: what the workers timed beside what the plan says each op has to do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "oneflow_core/op.h"
#include "proto/program.pb.h"
#include "tools/bench/measurement.h"

namespace oneflow {

// What all instructions of one op do in one step, on all ranks.
struct OpWork {
  double calls = 0;
  double flops = 0;  // 0 where the op's definition does not say
  double bytes = 0;  // operands, or both ends of copied boxes: what must be read and written at least
};
// Of one instruction, once.
OpWork WorkOf(const pb::Instruction& instruction, const OpRegistry& ops);
// Keys are named as in pb::OpTime.
std::map<std::string, OpWork> WorkOfPlan(const pb::Plan& plan, const OpRegistry& ops);

struct OpRow {
  std::string op;
  double calls = 0;        // per step
  double seconds = 0;      // per step, summed over ranks
  double share = 0;        // of the ranks' time inside the run
  double flops_per_s = 0;  // 0: unknown
  double bytes_per_s = 0;
};
// Slowest first.
std::vector<OpRow> OpTable(const Counters& counters, const std::map<std::string, OpWork>& work);

}  // namespace oneflow
