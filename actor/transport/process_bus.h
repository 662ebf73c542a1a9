// The bus of one process: it knows the ranks of this process, the process of each other rank, and the way there. A
// consumer on another host is sent the bytes that it reads of a slot with `filled`; where hosts of the plan are one
// process, they are copied.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "actor/transport/mail_file.h"
#include "actor/transport/message_bus.h"
#include "actor/transport/program_ids.h"

namespace oneflow {

class DataChannel;
class PeerNetwork;
class Shipments;

class ProcessBus : public MessageBus {
 public:
  // `peers` and `ids` are borrowed; peers is null for a job of one process. `on_error` is told, on any thread, which
  // message cannot be sent.
  ProcessBus(int process, std::vector<int> process_of_rank, PeerNetwork* peers, const ProgramIds& ids,
             std::function<void(absl::Status)> on_error);

  // Borrows the sink of an address in this process. Before the first Send().
  void Attach(int address, MessageSink& sink) { sinks_[address] = &sink; }
  // Messages to a process go through this shared memory from now on, with the clock of sending. Before the first
  // Send().
  void Attach(int process, std::unique_ptr<PeerMailFile> file) { files_[process] = std::move(file); }
  // The channel and the shipments to other hosts; borrowed. `is_far` says which processes are on other hosts. Before
  // the first Send().
  void Attach(DataChannel* channel, Shipments& shipments, std::vector<bool> is_far);
  // Sends the shipped bytes of a slot that is filled when a run begins.
  void SendInitial(int address, const Message& message);
  void UseClock(int64_t (*now_ns)()) { now_ns_ = now_ns; }
  void Send(int address, const Message& message) override;
  // Messages to one thread are one entry into its mailbox or its ring; those over the network to one process, one
  // frame.
  void SendAll(absl::Span<const std::pair<int, Message>> messages) override;

 private:
  void PostLanded(int address, absl::Span<const Message> messages);
  void SendFar(int process, const Message& message, std::vector<Message>& frame);
  // Null if the address is not reached through shared memory.
  RingWriter* RingTo(int address) const;
  int ProcessAt(int address) const { return process_of_rank_[RankAt(address)]; }

  const int process_;
  const std::vector<int> process_of_rank_;
  PeerNetwork* const peers_;
  const ProgramIds& ids_;
  const std::function<void(absl::Status)> on_error_;
  std::vector<MessageSink*> sinks_;                   // by address; null for those of other processes
  std::vector<std::unique_ptr<PeerMailFile>> files_;  // by process; null: over the network
  DataChannel* channel_ = nullptr;
  Shipments* shipments_ = nullptr;
  std::vector<bool> is_far_;  // by process; those are reached by the channel
  int64_t (*now_ns_)() = [] { return int64_t{0}; };
};

}  // namespace oneflow
