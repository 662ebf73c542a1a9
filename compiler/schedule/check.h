// Whether a schedule can be followed.
#pragma once

#include "absl/status/status.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Checks that every chunk has each action of each micro-batch once (F, and B or both I and W; or F alone everywhere),
// on the rank of the chunk, in an order that data allows; that pairs are a forward and a backward; and that ranks that
// follow their lists all come to the end. InvalidArgument names the actions; where ranks wait for one another in a
// cycle, it says for each rank which action waits for which. Linear time.
absl::Status CheckSchedule(const Schedule& schedule);

}  // namespace oneflow
