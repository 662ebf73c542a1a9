// The wait graph of a written plan, whoever wrote it: for the proof in compiler/plan/liveness.h.
#pragma once

#include "compiler/plan/liveness.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Actors are named "name@rank". InvalidArgument, naming actor or register and the number, if an index is out of range
// or ports and registers do not name each other, or if no order names an actor with collectives.
absl::StatusOr<WaitGraph> WaitGraphOf(const pb::Plan& plan);

// CheckLive on it, with the plan's name on errors.
absl::Status CheckPlanLive(const pb::Plan& plan);

}  // namespace oneflow
