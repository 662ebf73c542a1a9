// Which daemons run a job's processes: all at once or not at all (a gang).
//
// Processes spread over as many daemons as possible: in every round each daemon with room takes one more, in the order
// given. The processes of one daemon are numbered consecutively, so that neighbouring ranks share a host.
//
//   free devices 4, 2, 4; 4 processes of 2 devices:   rounds give 2, 1, 1   ->  processes 0 1 | 2 | 3
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace oneflow {

// For each process the index of its daemon in `free_devices`; empty if they do not all fit.
// REQUIRES: processes >= 1, devices_per_process >= 1.
std::vector<int> PlaceGang(absl::Span<const int> free_devices, int processes, int devices_per_process);

}  // namespace oneflow
