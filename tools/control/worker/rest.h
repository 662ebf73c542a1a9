// The smaller batch behind the whole ones of an evaluation: a plan of its own, whose values count as the evaluation's.
#pragma once

#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"

namespace oneflow {

// Runs the plan and then, if there is one, that of the rest. Errors of the engine.
absl::Status RunWithRest(Engine& engine, const pb::RunPlan& run);

// A value that a plan of a rest fetches becomes one of the plan that it is the rest of, with its weight unless it has
// one of its own; one of a step with a smaller batch becomes one of the plan that trains.
void CountAsWhole(const pb::JobSpec& spec, Fetched& fetched);

}  // namespace oneflow
