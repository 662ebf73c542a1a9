// A job's config as an allocation has it: processes, hosts and cores that the config leaves open.
#pragma once

#include "oneflow_core/status.h"
#include "tools/control/launch/allocation.h"
#include "tools/job/config.h"

namespace oneflow {

// A process for each task; a host for each node, if there are several; a task's cores for a process. What the config
// says itself stays. FailedPrecondition with both numbers if that is more or fewer processes than there are tasks, or
// if nodes have different numbers of tasks and the config describes no hosts.
absl::Status FitToAllocation(const Allocation& allocation, SourcedConfig& config);

}  // namespace oneflow
