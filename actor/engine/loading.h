// Loads a job: from a program that nobody has checked to threads that wait for their first grant.
//
//   check ─► devices, memory ─► meet peers ─► bind instructions ─► threads ─► warm up devices ─► initial values
#pragma once

#include "actor/engine/loaded_job.h"
#include "actor/engine/running.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Fills `job`, whose threads and ways tell `running`. Errors as Engine::Create; afterwards the job can only be
// destroyed.
absl::Status LoadJob(const EngineOptions& options, Running& running, LoadedJob& job);

}  // namespace oneflow
