// Collectives over NCCL, for ranks on CUDA devices.
//
//   plan: communicator 0 = ranks 0 1 2 3       process 0 (ranks 0, 1)        process 1 (ranks 2, 3)
//                                              makes the id ──exchange────►  knows the id
//                                              ncclCommInitRank for 0, 1     ncclCommInitRank for 2, 3
//
// All communicators are set up at the same time, a process's own ranks of one as one group, so a process that is late
// in one delays no other. The wait for peers is limited. Launch() puts the call on the rank's stream and returns; order
// within a communicator is the plan's. Abort() aborts all communicators at once, each on a thread of its own.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "actor/collective/collectives.h"
#include "proto/program.pb.h"

namespace oneflow {

class PeerNetwork;

// Collectives for the ranks of `process`, on the devices that the plans name. Every process of the job must call it,
// before it creates its engine; returns when all have. `peers` is borrowed until then; null for a job of one process.
// Unimplemented if this build has no NCCL; InvalidArgument if a communicator has ranks on other devices than CUDA ones;
// Unavailable if NCCL fails, or if no communicator has been completed for `timeout`, with the first incomplete one and
// the ranks that may be missing; else as AgreeOnCommunicatorIds (communicator_ids.h).
absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclCollectives(const pb::Program& plans, int process,
                                                                 PeerNetwork* peers,
                                                                 absl::Duration timeout = absl::Seconds(60));

}  // namespace oneflow
