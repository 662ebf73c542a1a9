// What a job spec must satisfy before it is queued, so that a mistake is an answer to Submit and not a failure minutes
// later.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/control.pb.h"

namespace oneflow {

// InvalidArgument naming the field and both values: counts below one or beyond all machines, a name as ValidateHello()
// refuses, an unknown device, a plan that does not parse, has another version or hash, or whose ranks are not processes
// x devices_per_process of that device; a phase that names no plan or no path.
absl::Status ValidateSpec(const pb::JobSpec& spec);

// A spec as the scheduler keeps it: of a plan, which may take megabytes, there is one copy on its way to the store, and
// none while the job waits or runs.
struct AcceptedSpec {
  std::string user;  // who submits it
  int priority = 0;
  pb::JobSpec spec;  // without the plan
  std::shared_ptr<const std::string> plan;
  std::vector<int> processes_of_host;  // as ProcessesOfHosts()
};
// REQUIRES: ValidateSpec() accepts the spec.
AcceptedSpec Accept(pb::JobSpec spec);

// InvalidArgument naming the field and both values: a name that is empty, longer than 200 bytes or has bytes that a
// terminal would obey; more devices than a machine can have, or fewer than none.
absl::Status ValidateHello(const pb::DaemonHello& hello);

// InvalidArgument naming the field: a user as ValidateHello() refuses names, a priority beyond -1000 to 1000.
absl::Status ValidateWish(const pb::SubmitRequest& request);

// How many processes each host of the plan holds, in order. REQUIRES: ValidateSpec() accepts the spec.
std::vector<int> ProcessesOfHosts(const pb::JobSpec& spec);

}  // namespace oneflow
