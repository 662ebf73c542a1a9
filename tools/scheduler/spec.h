// What a job spec must satisfy before it is queued, so that a mistake is an answer to Submit and not a failure minutes
// later.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "proto/control.pb.h"

namespace oneflow {

// InvalidArgument naming the field and both values: counts below one, an unknown device, a plan that does not parse,
// has another version or hash, or whose ranks are not processes x devices_per_process of that device; a phase that
// names no plan or no path.
absl::Status ValidateSpec(const pb::JobSpec& spec);

// How many processes each host of the plan holds, in order. REQUIRES: ValidateSpec() accepts the spec.
std::vector<int> ProcessesOfHosts(const pb::JobSpec& spec);

}  // namespace oneflow
