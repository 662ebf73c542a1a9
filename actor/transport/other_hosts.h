// The exchange of a process with processes of other hosts: which these are, what is sent to them, and where their data
// lands.
//
//   bus ──► shipments, data channel ══► other hosts ══► data channel ──► landing, then the reader's thread
//
// For jobs on one host it does nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "actor/core_budget.h"
#include "actor/memory.h"
#include "actor/transport/data_channel.h"
#include "actor/transport/program_ids.h"
#include "actor/transport/shipments.h"
#include "oneflow_core/status.h"
#include "proto/peer.pb.h"
#include "proto/program.pb.h"

namespace oneflow {

class PeerNetwork;
class ProcessBus;

class OtherHosts : private DataChannel::Receiver {
 public:
  // Called on the channel's thread; must be quick.
  class Listener {
   public:
    virtual ~Listener() = default;
    // Messages with the sender's numbers, not yet checked.
    virtual void OnMessages(int process, absl::Span<const Message> messages) = 0;
    // Hands a message of this program to the thread that serves its actor. InvalidArgument if none does.
    virtual absl::Status Deliver(const Message& message) = 0;
    virtual void OnPeerLost(int process, absl::Status status) = 0;
  };

  // Everything is borrowed. REQUIRES: the program passed CheckProgram; memory of our ranks is in place.
  OtherHosts(const pb::Program& program, int process, const JobMemory& memory, const ProgramIds& ids,
             Listener& listener);

  // By process: whether it is on another host.
  const std::vector<bool>& are_far() const { return is_far_; }
  Shipments& shipments() { return shipments_; }
  // Null if nothing goes from or to other hosts, or before Open().
  DataChannel* channel() const { return channel_.get(); }
  // Whether bytes must come with a message of this program.
  bool Lands(const Message& message) { return shipments_.LandingOf(message) != nullptr; }

  // The channel, if there is anything to exchange, at our address in `peers`. Errors of DataChannel::Create.
  absl::Status Open(const PeerNetwork& peers, CoreBudget& cores);
  // To a process of another host, if we exchange anything with it. FailedPrecondition if it has another kind of
  // channel; errors of DataChannel::Connect.
  absl::Status Connect(int process, const pb::PeerData& peer);
  // Earlier data waits until then.
  void Start();
  // Nothing is reported or written afterwards.
  void Close() { channel_.reset(); }

  // Other hosts have copies of the registers that they read. Copies of registers that are filled when a run begins
  // (variables) are those of the plan's last run, unless their place has been reused or variables were changed since:
  // then they are sent once more. Returns when the data of others has come too, or with the status of Interrupt().
  absl::Status BringUpToDate(int plan, ProcessBus& bus);
  // Variables have been changed outside of runs.
  void Forget() { landed_plan_ = -1; }
  void Interrupt(const absl::Status& status);

  // Of payloads. Any thread.
  int64_t bytes_sent() const { return channel_ == nullptr ? 0 : channel_->bytes_sent(); }

 private:
  void FindFar();
  void FindExchanges();
  void OnMessages(int process, absl::Span<const Message> messages) override { listener_.OnMessages(process, messages); }
  absl::StatusOr<absl::Span<char>> RoomFor(DataChannel::Use use, const Message& message, int64_t num_bytes) override;
  void OnArrived(int process, DataChannel::Use use, const Message& message) override;
  void OnChannelLost(int process, absl::Status status) override { listener_.OnPeerLost(process, std::move(status)); }

  const pb::Program& program_;
  const int process_;
  const ProgramIds& ids_;
  Listener& listener_;
  std::vector<bool> is_far_;     // by process
  std::vector<bool> exchanges_;  // by process: those that send us messages, or we them
  Shipments shipments_;
  std::unique_ptr<DataChannel> channel_;
  int landed_plan_ = -1;  // the plan whose initially filled slots are up to date on other hosts

  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<int64_t> arrived_;  // by plan: slots that peers have brought up to date
  absl::Status interrupted_;
};

}  // namespace oneflow
