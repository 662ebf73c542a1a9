// What a worker does once its engine stands: the phases of its job, in order, each part reported when it is done.
#pragma once

#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/worker/worker_context.h"

namespace oneflow {

// Loads the job's weights if it has any, or its last good checkpoint if it goes on from one, then runs its phases:
// after a checkpoint from training on, and of training what is left. The first error ends it, saying which phase it was
// in. A last checkpoint that cannot be written is an error when all else is done.
absl::Status RunPhases(Engine& engine, const pb::JobSpec& spec, const WorkerContext& context);

}  // namespace oneflow
