// Checks that the devices of a process have room for its plan before anything is allocated. Otherwise a job would end
// with the first allocation that fails, perhaps a library's in the middle of a step.
#pragma once

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// For each cuda device of the process: ResourceExhausted, with needed and free memory, if the rank's zones and the
// future memory of libraries (pb::Rank::library_bytes) exceed the free memory; Unavailable if there is no such device.
// Makes the process' contexts. REQUIRES: nothing else of the process is on the devices yet.
absl::Status CheckFreeMemory(const pb::Program& program, int process);

}  // namespace oneflow
