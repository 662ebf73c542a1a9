// The hosts that a job config describes, as the compiler sees them.
#pragma once

#include <vector>

#include "sbp/topology.h"
#include "tools/job/config.h"

namespace oneflow {

// The processes that the config asks for: 1 if it does not say, or one on each host that it describes and has ranks
// for.
int64_t NumProcesses(const pb::JobConfig& config);

// The config's hosts, or one that has room for all devices. InvalidArgument naming field and line if a number is out of
// range, a link class or a kind of device is unknown, the table of devices cannot be read, or the mesh and its
// processes do not fit. Nothing that grows with devices is allocated.
absl::StatusOr<std::vector<HostGroup>> HostsOf(const SourcedConfig& config);

}  // namespace oneflow
