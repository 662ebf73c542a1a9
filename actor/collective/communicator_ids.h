// How the processes of a job agree on ids of its communicators, before a communication library can connect anyone.
//
// The process of a communicator's first rank makes its id, a string of bytes that tells the library where to meet. All
// processes then exchange their ids, so every process knows every id.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

class PeerNetwork;

// The ids of `plans.communicators()`, in their order; the same in all processes, which must all call it, and make their
// other exchanges over the network in the same order. `make_id` is called once per communicator that begins here.
// `peers` is null for a job of one process. InvalidArgument if a communicator is empty or names a rank that the plans
// do not have, or if its maker made no id for it; else the error of `make_id` or of the exchange.
absl::StatusOr<std::vector<std::string>> AgreeOnCommunicatorIds(
    const pb::Program& plans, int process, PeerNetwork* peers,
    const std::function<absl::StatusOr<std::string>()>& make_id);

}  // namespace oneflow
