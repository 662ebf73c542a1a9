// Messages and bytes between processes of different hosts, over UCX: TCP, or what faster cards offer where UCX_TLS and
// UCX_NET_DEVICES name them.
//
//   process 0, host 0                                                       process 1, host 1
//   actor threads ──► Send() ──► queue ──► thread ══ UCX ══► thread ──► Receiver ──► memory, mailboxes
//
// One thread moves everything and sleeps when idle. Before it sleeps it spins for a while if the process has a core to
// spare; without one, it looks four times in a millisecond while payloads move. Data in few runs is sent without a copy
// on the way to the network. Payloads go in pieces, with messages between them.
//
// Who may send is settled before: peers hear the address and a stamp of random bytes over the control network, and data
// without the stamp is dropped. Where that network is secret they hear a key too, and everything on this channel is
// sealed with it (seal.h): data that is not sealed, was changed or comes again is dropped. UCX itself reads the bytes
// before that, and trusts them: its ports are not for strangers (tools/control/security/README.md). A connection that
// breaks is reported once and not made again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "actor/core_budget.h"
#include "actor/message.h"
#include "actor/transport/shipments.h"
#include "oneflow_core/status.h"
#include "proto/peer.pb.h"

namespace oneflow {

class DataChannel {
 public:
  // The purpose of a payload: it comes with `filled`, or it updates a slot that is filled when a run begins.
  enum class Use : uint8_t { kFilled = 1, kInitial = 2 };

  // Called on the channel's thread; must be quick.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void OnMessages(int process, absl::Span<const Message> messages) = 0;
    // The memory for `num_bytes` that come with a message; each piece says its place in it. An error ends the job: it
    // is reported as a lost peer.
    virtual absl::StatusOr<absl::Span<char>> RoomFor(Use use, const Message& message, int64_t num_bytes) = 0;
    // They have arrived.
    virtual void OnArrived(int process, Use use, const Message& message) = 0;
    // The connection broke (Unavailable), or carried nonsense (InvalidArgument). At most once per peer.
    virtual void OnChannelLost(int process, absl::Status status) = 0;
  };

  struct Options {
    int process = 0;
    int num_processes = 1;
    std::string host;             // an address of this host, whose network card is used
    CoreBudget* cores = nullptr;  // borrowed; null: the thread never spins
    bool is_secret = false;       // only peers read announcements, and the data is for nobody else
  };
  // Unavailable, saying why, if the library finds no network to use.
  static absl::StatusOr<std::unique_ptr<DataChannel>> Create(const Options& options);
  // Sends what is still queued, for at most two seconds, then closes.
  ~DataChannel();

  // The information that peers need.
  const pb::PeerData& announcement() const { return announcement_; }
  // Before anything is sent to that process. InvalidArgument if its announcement has no address or key, Unavailable if
  // there is no way to it.
  absl::Status Connect(int process, const pb::PeerData& peer);
  // Sets the receiver, borrowed; earlier data waits.
  void Start(Receiver& receiver);

  // Any thread; return at once. Messages have the numbers of the whole job, and arrive in the order of the calls, maybe
  // before payloads of earlier ones; so do payloads. The shipped bytes of a slot must stay as they are until the
  // receiver frees it.
  void SendMessages(int process, absl::Span<const Message> messages);
  void SendShipment(int process, Use use, const Message& message, const Shipment& shipment, int32_t slot);

  // Of payloads, since creation. Any thread.
  int64_t bytes_sent() const;

 private:
  class Impl;
  explicit DataChannel(std::unique_ptr<Impl> impl, pb::PeerData announcement);
  std::unique_ptr<Impl> impl_;
  pb::PeerData announcement_;
};

}  // namespace oneflow
