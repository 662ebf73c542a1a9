// On which fewer devices a job may go on that has lost some: `restart` of its config.
#pragma once

#include <string>
#include <vector>

#include "tools/job/config.h"

namespace oneflow {

// The job's config on one of them, and the field that asks for it.
struct FallbackConfig {
  SourcedConfig config;  // without `restart` and `slots`
  std::string field;
};

// Of restart.meshes, then of restart.least_devices, which takes less of dp. A process has as many devices as one of the
// job's, or the most that are fewer and divide the mesh. InvalidArgument naming the field if a mesh takes as many
// devices as the job, or there are more than 16. REQUIRES: the job's own mesh and cluster are valid.
absl::StatusOr<std::vector<FallbackConfig>> FallbackConfigs(const SourcedConfig& config);

}  // namespace oneflow
