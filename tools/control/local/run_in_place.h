// Runs a whole job inside the calling process: every rank is a thread here, no scheduler and no other process takes
// part. For programs that embed the engine, and for tests.
#pragma once

#include <functional>

#include "actor/engine.h"
#include "proto/control.pb.h"
#include "proto/program.pb.h"

namespace oneflow {

namespace pb {
class PlanSet;
}

// Runs spec.phases of the compiled plan set; returns what the engine counted. `on_event` gets the same events, in the
// same order, as a watcher of a submitted job (state RUNNING, values, phases, FINISHED or FAILED); it is called under a
// lock from several threads, and may be null. InvalidArgument if the job wants several processes; otherwise errors of
// Engine (actor/engine.h).
absl::StatusOr<EngineStats> RunInPlace(const pb::JobSpec& spec, const pb::PlanSet& plan,
                                       const std::function<void(const pb::JobEvent&)>& on_event);
// The same for a program that was made of the plan already: of process 0, or of all.
absl::StatusOr<EngineStats> RunInPlace(const pb::JobSpec& spec, pb::Program program,
                                       const std::function<void(const pb::JobEvent&)>& on_event);

}  // namespace oneflow
