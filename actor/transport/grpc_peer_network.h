// PeerNetwork over gRPC: two streams' ends for every pair of processes, and what their frames have brought.
//
//   gRPC's threads ──► OnRead ── StreamState ──► frames into the inbox of the peer's link ──► who waits for them
//                                    └─────────► messages to the listener
//   any thread ──► queue of the link ──► StreamState ──► the next write
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "actor/transport/peer_frames.h"
#include "actor/transport/peer_network.h"
#include "actor/transport/peer_stream.h"
#include "actor/transport/stream_state.h"
#include "actor/transport/tls.h"
#include "proto/peer.grpc.pb.h"

namespace oneflow {

// A stream's state and frames are guarded by the network's mutex.
class GrpcPeerNetwork final : public PeerNetwork, private pb::Peer::CallbackService, private PeerStream::Owner {
 public:
  GrpcPeerNetwork(const PeerIdentity& self, const TlsIdentity& identity)
      : self_(self), identity_(identity), links_(self.processes) {}

  ~GrpcPeerNetwork() override;
  // On a free port of `host`. Unavailable if none can be had.
  absl::Status Listen(const std::string& host);

  int process() const override { return self_.process; }
  int num_processes() const override { return self_.processes; }
  bool is_secret() const override { return !identity_.empty(); }
  const std::string& address() const override { return address_; }
  absl::Status Connect(const std::vector<std::string>& addresses, absl::Duration timeout) override;
  void SetListener(Listener* listener) override;
  void Send(int process, absl::Span<const Message> messages) override;
  void SendError(const absl::Status& status) override;
  absl::StatusOr<std::vector<pb::PeerPlan>> Exchange(const pb::PeerPlan& mine) override;
  absl::StatusOr<std::vector<std::string>> ExchangeNotes(const std::string& mine) override;
  absl::Status Barrier() override;
  absl::StatusOr<ClockReading> CompareClock(int process) override;
  void Interrupt(const absl::Status& status) override;

 private:
  using Event = StreamState::Event;

  // A peer calls.
  grpc::ServerBidiReactor<pb::PeerFrame, pb::PeerFrame>* Connect(grpc::CallbackServerContext* context) override;

  void OnRead(PeerStream* stream, bool ok) override;
  void OnWrite(PeerStream* stream, bool ok) override;
  void OnEnd(PeerStream* stream, const absl::Status& status) override;

  // The state of a peer. The own entry is not used.
  struct Link {
    std::string address;
    PeerStream* stream = nullptr;  // while frames can be written
    bool up = false;               // greeted both ways, ever
    bool lost = false;
    bool told = false;   // the listener knows of `error` or of the peer's failure
    absl::Status error;  // why it is lost, or why it was never up
    std::deque<pb::PeerFrame> queue;
    PeerInbox inbox;
  };

  std::string Name(int process) const {
    const std::string& address = links_[process].address;
    return absl::StrCat("process ", process, address.empty() ? "" : absl::StrCat(" (", address, ")"));
  }

  bool IsOfCluster(const PeerStream& stream) const { return identity_.empty() || HasUri(*stream.Shown(), kClusterUri); }

  // All of these REQUIRE mu_.
  // Tells the stream's state what happened, and does what it says; `why` is for a peer that is refused.
  void Step(PeerStream& stream, Event event, const absl::Status& why = absl::OkStatus());
  pb::PeerFrame NextFrame(const PeerStream& stream);
  // The peer's hello was read.
  void Greet(PeerStream& stream);
  absl::Status CheckGreeting(const PeerStream& stream) const;
  // Nothing more is read, for this event.
  void Lose(PeerStream& stream, Event event, const absl::Status& why);
  void Enqueue(Link& link, pb::PeerFrame frame);
  absl::StatusOr<std::vector<Message>> Take(PeerStream& stream);
  // The reason why nothing more can come from this peer; OK if it can.
  absl::Status WhyGone(int process) const;
  // Sends the frames, which contain `mine`, to all peers and returns theirs, by process.
  template <typename T>
  absl::StatusOr<std::vector<T>> ExchangeFrames(absl::Span<const pb::PeerFrame> frames, const T& mine,
                                                std::deque<T> PeerInbox::*arrived);
  // Waits until `arrived` holds for every peer, or returns why it never can.
  absl::Status Await(std::unique_lock<std::mutex>& lock, const std::function<bool(const PeerInbox&)>& arrived);

  // Without mu_. Tells the listener its news about this peer.
  void Tell(int process);
  void Dispatch(PeerStream& stream, const std::vector<Message>& messages);

  const PeerIdentity self_;
  const TlsIdentity identity_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  // Owned here and not by the streams, which end on gRPC's threads: the last channel must not be closed on a thread for
  // which its closing waits.
  std::vector<std::unique_ptr<pb::Peer::Stub>> stubs_;

  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Link> links_;
  std::vector<PeerStream*> streams_;  // alive
  int ending_ = 0;                    // being deleted
  bool closing_ = false;
  bool has_listener_ = false;
  int64_t barriers_ = 0;  // entered by this process
  absl::Status interrupted_;

  std::shared_mutex listener_mu_;  // held while the listener is called; taken before mu_ or alone
  Listener* listener_ = nullptr;
};

}  // namespace oneflow
