// Times the instructions of a plan as they run: those of a rank one after another in the order of a step, in the memory
// that the plan gives them, all ranks of the host at once. So caches hold what the acts before left there, and others
// use memory meanwhile, as in a run; but nobody waits for anybody.
//
//   rank 0   | matmul | gelu | copy | adamw |      | matmul | ...     each on a thread of its own; all begin a step
//   rank 1   | matmul | gelu | copy | adamw |      | matmul | ...     together
//            step 0                                step 1
//
// Variables have their initial values and data is read, so that values are what they are when a job begins. Whatever
// comes from other ranks is what lies there.
#pragma once

#include <vector>

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

struct ReplayOptions {
  std::vector<int> ranks;  // whose acts are timed, at once
  int threads = 1;         // that a rank computes with
  int warmup = 2;          // steps
  int steps = 15;
};

// The acts of a rank in one step, in their order: actors.
using ActOrder = std::vector<int>;

struct TimedInstruction {
  int actor = 0;
  int index = 0;       // among its instructions
  double seconds = 0;  // median of its runs
};

struct Replay {
  std::vector<TimedInstruction> instructions;
  std::vector<double>
      step_factors;  // of every rank and step: what its instructions took, over the sum of their medians
};

// `order` has the acts of every rank, by rank. Collectives are left out. Errors as of Engine::Create, and of the
// instructions.
absl::StatusOr<Replay> ReplayActs(const pb::Program& program, int plan, const std::vector<ActOrder>& order,
                                  const OpRegistry& ops, const ReplayOptions& options);

}  // namespace oneflow
