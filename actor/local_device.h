// Which device, of those that a process sees, belongs to a rank.
//
//   host: cuda:0 cuda:1 cuda:2 cuda:3       process 1 has ranks on cuda:2 and cuda:3 and is started so that it sees no
//                                           others: to it they are its devices 0 and 1
#pragma once

#include "oneflow_core/mesh.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// The device of a rank as its own process counts: its index, ascending, among the devices of that kind on which the
// process has ranks. InvalidArgument if the program names it by something that is no device.
absl::StatusOr<Device> LocalDevice(const pb::Program& program, int rank);

}  // namespace oneflow
