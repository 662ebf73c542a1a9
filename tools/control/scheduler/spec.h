// What a job spec must satisfy before it is queued, so that a mistake is an answer to Submit and not a failure minutes
// later.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/control.pb.h"
#include "tools/control/scheduler/placement.h"

namespace oneflow {

// InvalidArgument naming the field and both values: counts below one or beyond all machines, a name as ValidateHello()
// refuses, an unknown device, a plan that does not parse, has another version or hash, or whose ranks are not processes
// x devices_per_process of that device; a phase that names no plan or no path; a fallback of which any of this holds,
// or that takes as many devices as the job's own layout.
absl::Status ValidateSpec(const pb::JobSpec& spec);

// A spec as the scheduler keeps it: of plans, which may take megabytes, there is one copy on its way to the store, and
// none while the job waits or runs. Plans and gangs are those of the job's own layout, then of its fallbacks.
struct AcceptedSpec {
  std::string user;  // who submits it
  int priority = 0;
  pb::JobSpec spec;  // without plans
  std::vector<std::shared_ptr<const std::string>> plans;
  std::vector<Gang> gangs;  // as GangsOf()
};
// REQUIRES: ValidateSpec() accepts the spec.
AcceptedSpec Accept(pb::JobSpec spec);

// InvalidArgument naming the field and both values: a name that is empty, longer than 200 bytes or has bytes that a
// terminal would obey; more devices than a machine can have, or fewer than none.
absl::Status ValidateHello(const pb::DaemonHello& hello);

// InvalidArgument naming the field: a user as ValidateHello() refuses names, a priority beyond -1000 to 1000.
absl::Status ValidateWish(const pb::SubmitRequest& request);

// What the job's own plan asks of a cluster, then what those of its fallbacks do. REQUIRES: ValidateSpec() accepts the
// spec.
std::vector<Gang> GangsOf(const pb::JobSpec& spec);

// The spec as workers get it, on the `fallback`-th of its fallbacks, from 1, or on its own layout (0), and without any
// other. REQUIRES: it has as many.
pb::JobSpec OnLayout(pb::JobSpec spec, int fallback);

// The hash of the job's own plan, then those of its fallbacks.
std::vector<std::string> PlanHashes(const pb::JobSpec& spec);

}  // namespace oneflow
