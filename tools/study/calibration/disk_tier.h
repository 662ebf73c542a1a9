// How fast a disk is as a tier of memory (actor/tier_file.h).
#pragma once

#include <string>

#include "oneflow_core/status.h"

namespace oneflow {

// Bytes per second that a file in `folder` reads and writes at once, both together: 256 MiB each. Errors of TierFile.
absl::StatusOr<double> DiskTierBytesPerS(const std::string& folder);

}  // namespace oneflow
