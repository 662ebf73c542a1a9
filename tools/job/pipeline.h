// What a job says of its pipeline: the schedule, and how much of the work each stage gets.
#pragma once

#include <vector>

#include "compiler/schedule/schedule.h"
#include "oneflow_core/status.h"
#include "tools/job/config.h"

namespace oneflow {

// The schedule that a job asks for, or has by default; one without ranks if the order follows from credits. Errors of
// MakeSchedule, and of a trace of costs, with field and line. REQUIRES: the config was validated.
absl::StatusOr<Schedule> PipelineOf(const SourcedConfig& config);

// Whether the schedule is the one that jobs on devices that send have by default.
bool HasDefaultSchedule(const pb::JobConfig& config);

// The shares of the chunks; empty if the job names none. InvalidArgument, with field and line, unless there is one for
// each stage or for each chunk.
absl::StatusOr<std::vector<double>> SharesOf(const SourcedConfig& config, const Schedule& schedule);

}  // namespace oneflow
