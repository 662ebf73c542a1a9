// The control network of one job: a stream between every two of its worker processes.
//
//   process 0          process 1          process 2        the higher number calls, the lower listens
//       ▲ ◄───stream────── │ ▲ ◄───stream──── │
//       └──────────────────┼─┴───stream────── ┘
//
// With an identity, streams are encrypted, and each end refuses a process outside the cluster (tls.h). A user's
// certificate counts like none, even if a CA lets its holder serve.
//
// Every stream begins with a greeting that compares the job and the attempt. So nothing of an earlier attempt is ever
// accepted, nor of another job at a reused port. Sending never waits: while a write is in flight, messages gather in
// one batch behind it. Received data is validated before it is passed on. A stream that breaks means that the peer is
// gone: nothing is sent twice, nothing reconnects.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "actor/message.h"
#include "actor/transport/peer_clock.h"
#include "actor/transport/tls.h"
#include "oneflow_core/status.h"
#include "proto/peer.pb.h"

namespace oneflow {

class PeerNetwork {
 public:
  // Called on threads of the network, in order per peer.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnMessages(int process, absl::Span<const Message> messages) = 0;
    // The peer failed for this reason and has stopped acting.
    virtual void OnPeerError(int process, absl::Status status) = 0;
    // The stream broke (Unavailable) or carried nonsense (InvalidArgument). At most once per peer.
    virtual void OnPeerLost(int process, absl::Status status) = 0;
  };

  // Listens on a free port of `host`, for the process `process` of a job of `num_processes`. Unavailable if no port can
  // be had. `run`: JobSpec.run.
  static absl::StatusOr<std::unique_ptr<PeerNetwork>> Create(int process, int num_processes, uint64_t attempt,
                                                             const std::string& host = "127.0.0.1",
                                                             const TlsIdentity& identity = {}, uint64_t run = 0);
  // Sends what is still queued, for at most two seconds, then closes.
  virtual ~PeerNetwork() = default;

  virtual int process() const = 0;
  virtual int num_processes() const = 0;
  // Whether it has an identity, so that its traffic is secret.
  virtual bool is_secret() const = 0;
  // "127.0.0.1:41234": what the peers need to Connect().
  virtual const std::string& address() const = 0;

  // Connects to every peer, given the addresses of all processes (the own one is not used). DeadlineExceeded naming the
  // missing peers after `timeout`; FailedPrecondition if a peer is of another job, attempt or job size;
  // PermissionDenied if one is no part of the cluster.
  virtual absl::Status Connect(const std::vector<std::string>& addresses, absl::Duration timeout) = 0;

  // Sets the listener; null: none, and messages wait. When it returns, no call to the former listener is running.
  virtual void SetListener(Listener* listener) = 0;

  // Any thread; returns at once. Dropped if the peer is lost.
  virtual void Send(int process, absl::Span<const Message> messages) = 0;
  // Tells all peers that this process has failed.
  virtual void SendError(const absl::Status& status) = 0;

  // Sends `mine` to all peers and returns theirs, by process (the own entry is `mine`). Errors as Barrier().
  virtual absl::StatusOr<std::vector<pb::PeerPlan>> Exchange(const pb::PeerPlan& mine) = 0;
  // The same with any bytes, between runs. They travel in pieces. ResourceExhausted if they are longer than 1 GiB.
  virtual absl::StatusOr<std::vector<std::string>> ExchangeNotes(const std::string& mine) = 0;
  // Returns when every process has called it as often. Data sent before it has then arrived. Unavailable if a peer is
  // lost that has not reached it, Aborted with the peer's error if one failed, or the status given to Interrupt().
  virtual absl::Status Barrier() = 0;
  // Compares our steady clock with that of another process, as well as some round trips can. Errors as Barrier().
  virtual absl::StatusOr<ClockReading> CompareClock(int process) = 0;
  // Makes these four return `status`, now and later.
  virtual void Interrupt(const absl::Status& status) = 0;
};

}  // namespace oneflow
