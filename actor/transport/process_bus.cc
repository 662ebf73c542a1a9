#include "actor/transport/process_bus.h"

#include <map>
#include <utility>

#include "actor/transport/peer_network.h"

namespace oneflow {

ProcessBus::ProcessBus(int process, std::vector<int> process_of_rank, PeerNetwork* peers, const ProgramIds& ids)
    : process_(process),
      process_of_rank_(std::move(process_of_rank)),
      peers_(peers),
      ids_(ids),
      sinks_(process_of_rank_.size(), nullptr) {}

void ProcessBus::Send(int rank, const Message& message) {
  if (process_of_rank_[rank] != process_) {
    const Message sent = ids_.ForPeer(message);
    peers_->Send(process_of_rank_[rank], {&sent, 1});
  } else {
    sinks_[rank]->Post({&message, 1});
  }
}

void ProcessBus::SendAll(absl::Span<const std::pair<int, Message>> messages) {
  std::map<int, std::vector<Message>> by_process;
  for (const auto& [rank, message] : messages) {
    if (process_of_rank_[rank] != process_) {
      by_process[process_of_rank_[rank]].push_back(ids_.ForPeer(message));
    } else {
      sinks_[rank]->Post({&message, 1});
    }
  }
  for (const auto& [process, batch] : by_process) peers_->Send(process, batch);
}

}  // namespace oneflow
