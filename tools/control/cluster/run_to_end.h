// A job from its submission to its end, for programs that want its events and nothing else.
#pragma once

#include <atomic>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/client.h"

namespace oneflow {

// Events of the job, from its begin to its end. The daemons of its processes are started, and are gone at the end.
// Cancelled if `stop` is set meanwhile, Aborted if the job fails.
absl::StatusOr<std::vector<pb::JobEvent>> RunToEnd(const pb::JobSpec& spec, const std::atomic<bool>& stop);

// As RunToEnd, on a cluster that stays. Unavailable if nobody answers there.
absl::StatusOr<std::vector<pb::JobEvent>> RunToEndOn(const SchedulerAddress& scheduler, const pb::JobSpec& spec,
                                                     const std::atomic<bool>& stop);

}  // namespace oneflow
