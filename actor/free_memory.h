// Whether the devices of a process have room for its plan, before anything is taken there: a device that has not would
// end the job with whatever allocation fails first, perhaps a library's in the middle of a step.
#pragma once

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// For each cuda device of the process: ResourceExhausted, with what is needed and what is free, if the rank's zones and
// what libraries still take (pb::Rank::library_bytes) are more than is free; Unavailable if there is no such device.
// Makes the process' contexts. REQUIRES: nothing else of the process is on the devices yet.
absl::Status CheckFreeMemory(const pb::Program& program, int process);

}  // namespace oneflow
