// `oneflow bench kernels JOB`: what the instructions of a job's plan take on this machine's devices, and what its
// runtime takes for messages and around acts; written to a file for `oneflow plan simulate --kernels`
// (proto/kernel_costs.proto).
//
// Instructions are timed as they run: in the order of a step, in the plan's memory, on as many ranks at once as a host
// of the job has (act_replay.h). Nothing of the job itself is run; messages are those of a small job of the same
// cluster (message_probe.h).
#pragma once

#include <atomic>
#include <string>

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "proto/kernel_costs.pb.h"
#include "tools/job/job.h"

namespace oneflow {

struct BenchKernelsArguments {
  std::string config;             // job config
  std::vector<std::string> sets;  // overrides of it
  std::string plan;               // empty: the first
  std::string output;             // file; empty: stdout
  int steps = 15;
};

// Of one plan of a compiled job. `dir` is for files. Errors as of ReplayActs and ProbeMessages.
absl::StatusOr<pb::KernelCosts> MeasureKernels(const Job& job, const pb::Program& program, int plan, int steps,
                                               const std::string& dir, const OpRegistry& ops,
                                               const std::atomic<bool>& stop);

// NotFound if the job has no such plan; Unavailable if the file cannot be written; else as MakeJob, CompileJob and
// MeasureKernels. Cancelled if the user pressed Ctrl-C.
absl::Status BenchKernelsCommand(const BenchKernelsArguments& arguments);

}  // namespace oneflow
