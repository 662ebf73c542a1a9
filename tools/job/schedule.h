// The learning rate of a job: the fields of `train.schedule` that its kind reads (oneflow_core/rate_schedules.h).
#pragma once

#include <optional>

#include "compiler/options.h"
#include "oneflow_core/models/config.h"
#include "proto/job.pb.h"

namespace oneflow {

// What is wrong among the fields of the schedule, beyond their own ranges: one that the kind does not read, or values
// that do not fit together.
std::optional<FieldComplaint> CheckSchedule(const pb::Train& train);

// REQUIRES: CheckSchedule() has found nothing.
ScheduleOptions ScheduleOf(const pb::Train& train);

// Whether the rate of a step depends on the number of steps that the job trains.
bool RateNeedsSteps(const pb::Train& train);

}  // namespace oneflow
