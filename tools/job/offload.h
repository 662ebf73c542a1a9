// What lies in memory below the devices' (offload of a job config, compiler/passes/offload.cc).
#pragma once

#include <vector>

#include "compiler/options.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"

namespace oneflow {

// Kinds that are named twice, caps that differ, and a folder for nothing.
void CheckOffload(const pb::JobConfig& config, Checker& check);

std::vector<OffloadOptions> OffloadOf(const pb::JobConfig& config);

}  // namespace oneflow
