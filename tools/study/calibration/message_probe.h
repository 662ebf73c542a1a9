// What the runtime of a cluster takes for messages and around acts: a small job of its own, data-parallel, whose ranks
// lie as those of the job in question, is run on this machine with a trace.
#pragma once

#include <atomic>
#include <string>

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/study/sim/measured_costs.h"

namespace oneflow {

// Of a cluster as `like` has it, of two processes and two ranks of each at most: more are as far apart. `dir` is for
// its files. Errors of MakeJob and RunJob; FailedPrecondition if a trace says nothing.
absl::StatusOr<MeasuredCosts::AroundActs> ProbeMessages(const pb::JobSpec& like, const std::string& dir,
                                                        const OpRegistry& ops, const std::atomic<bool>& stop);

}  // namespace oneflow
