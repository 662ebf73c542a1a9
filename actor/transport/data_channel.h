// Messages and bytes between processes of different hosts. An implementation is a file and a row of the table in
// data_channel.cc; ucx_channel.cc is the one that there is.
//
// Who may send is settled before: peers hear the address and a stamp of random bytes over the control network, and data
// without the stamp is dropped. Where that network is secret they hear a key too, and everything on this channel is
// sealed with it (seal.h): data that is not sealed, was changed or comes again is dropped. A connection that breaks is
// reported once and not made again.
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
    const char* kind = "";        // its name in the table, set by Create()
    bool is_secret = false;       // only peers read announcements, and the data is for nobody else
  };
  // The first of the table that finds a network to use. Unavailable, saying why, if none does.
  static absl::StatusOr<std::unique_ptr<DataChannel>> Create(const Options& options);
  // Sends what is still queued, for at most two seconds, then closes.
  virtual ~DataChannel() = default;

  // The information that peers need.
  virtual const pb::PeerData& announcement() const = 0;
  // Before anything is sent to that process. InvalidArgument if its announcement has no address or key, Unavailable if
  // there is no way to it.
  virtual absl::Status Connect(int process, const pb::PeerData& peer) = 0;
  // Sets the receiver, borrowed; earlier data waits.
  virtual void Start(Receiver& receiver) = 0;

  // Any thread; return at once. Messages have the numbers of the whole job, and arrive in the order of the calls, maybe
  // before payloads of earlier ones; so do payloads. The shipped bytes of a slot must stay as they are until the
  // receiver frees it.
  virtual void SendMessages(int process, absl::Span<const Message> messages) = 0;
  virtual void SendShipment(int process, Use use, const Message& message, const Shipment& shipment, int32_t slot) = 0;

  // Of payloads, since creation. Any thread.
  virtual int64_t bytes_sent() const = 0;
};

}  // namespace oneflow
