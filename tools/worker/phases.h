// What a worker does once its engine stands: the phases of its job, in order, each reported when it is done.
#pragma once

#include <functional>

#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"

namespace oneflow {

// Loads the job's weights if it has any, then runs its phases; `on_done` is called after each with its index. The first
// error ends it, saying which phase it was in.
absl::Status RunPhases(Engine& engine, const pb::JobSpec& spec, const std::function<void(int)>& on_done);

}  // namespace oneflow
