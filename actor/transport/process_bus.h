// The bus of one process: knows which ranks live here and which process has the others.
#pragma once

#include <vector>

#include "actor/transport/message_bus.h"
#include "actor/transport/program_ids.h"

namespace oneflow {

class PeerNetwork;

class ProcessBus : public MessageBus {
 public:
  // `peers` and `ids` are borrowed; peers is null for a job of one process.
  ProcessBus(int process, std::vector<int> process_of_rank, PeerNetwork* peers, const ProgramIds& ids);

  // Borrows the sink of an address in this process. Before the first Send().
  void Attach(int address, MessageSink& sink) { sinks_[address] = &sink; }
  void Send(int address, const Message& message) override;
  // Those to one process travel in one frame.
  void SendAll(absl::Span<const std::pair<int, Message>> messages) override;

 private:
  int ProcessAt(int address) const { return process_of_rank_[RankAt(address)]; }

  const int process_;
  const std::vector<int> process_of_rank_;
  PeerNetwork* const peers_;
  const ProgramIds& ids_;
  std::vector<MessageSink*> sinks_;  // by address; null for those of other processes
};

}  // namespace oneflow
