// Checks that the collectives of a plan fit together across ranks. A call that some member does not make, makes later
// than another, or makes with other sizes, would hang the devices of all.
#pragma once

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// The collectives of a whole plan: every actor with a collective is ordered, once per act, on its own rank; the members
// of a communicator make the same calls in the same order, with sizes that fit. InvalidArgument with the rank, or with
// the communicator and the number of the call. REQUIRES: each instruction was checked.
absl::Status CheckCollectives(const pb::Program& set, const pb::Plan& plan);

}  // namespace oneflow
