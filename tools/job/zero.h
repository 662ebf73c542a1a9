// Sharded data parallelism (zero of a job config, compiler/zero.h).
#pragma once

#include <optional>

#include "compiler/options.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"

namespace oneflow {

// An axis that the mesh lacks, and fields that its stage does not read.
void CheckZero(const pb::JobConfig& config, Checker& check);

std::optional<ZeroOptions> ZeroOf(const pb::JobConfig& config);

}  // namespace oneflow
