// The devices of this process: one for each rank's main queue, with the memory of its zones, and one for each other
// queue that has actors.
#pragma once

#include "actor/engine/loaded_job.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Fills ranks, devices, memory, queue_devices and lanes. Unavailable if there is no such device, ResourceExhausted,
// with the memory that is left, if a zone does not fit. REQUIRES: the program passed CheckProgram.
absl::Status OpenDevices(const EngineOptions& options, LoadedJob& job);

}  // namespace oneflow
