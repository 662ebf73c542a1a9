#include "actor/transport/process_bus.h"

#include <utility>

#include "actor/transport/peer_network.h"

namespace oneflow {

ProcessBus::ProcessBus(int process, std::vector<int> process_of_rank, PeerNetwork* peers)
    : process_(process),
      process_of_rank_(std::move(process_of_rank)),
      peers_(peers),
      sinks_(process_of_rank_.size(), nullptr) {}

void ProcessBus::Send(int rank, const Message& message) {
  if (process_of_rank_[rank] != process_) {
    peers_->Send(process_of_rank_[rank], {&message, 1});
  } else {
    sinks_[rank]->Post({&message, 1});
  }
}

}  // namespace oneflow
