// Checks one variable: its shape, its initial value, and the shards that ranks hold of it.
#pragma once

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// InvalidArgument, saying which shard and what, unless the owners' shards lie in their zones, do not overlap and, in a
// program of all processes, cover the variable. REQUIRES: the ranks were checked.
absl::Status CheckVariable(const pb::Program& program, const pb::Variable& variable);

}  // namespace oneflow
