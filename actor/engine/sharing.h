// How a process meets the others of its job: they compare plans, map one another's memory, and learn the ways of their
// messages.
//
//   mine ──────► PeerPlan ──► all others        plan hash, zones that peers read, mail file, data channel
//   others' ◄─── PeerPlan                       compared, mapped, connected
#pragma once

#include <functional>

#include "actor/engine/loaded_job.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Fills ids, others, mail, bus and the zones of other processes in memory. `listener` is borrowed; `on_error` is told,
// on any thread, of messages that cannot be sent. FailedPrecondition, with both values, if a peer has another plan or
// shares no memory where ranks read its registers; InvalidArgument if its announcement makes no sense; errors of
// PeerNetwork::Exchange. REQUIRES: OpenDevices.
absl::Status MeetPeers(const EngineOptions& options, OtherHosts::Listener& listener,
                       const std::function<void(absl::Status)>& on_error, LoadedJob& job);

}  // namespace oneflow
