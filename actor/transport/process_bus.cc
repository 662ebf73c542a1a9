#include "actor/transport/process_bus.h"

#include <map>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "actor/transport/peer_network.h"

namespace oneflow {

ProcessBus::ProcessBus(int process, std::vector<int> process_of_rank, PeerNetwork* peers, const ProgramIds& ids)
    : process_(process),
      process_of_rank_(std::move(process_of_rank)),
      peers_(peers),
      ids_(ids),
      sinks_(process_of_rank_.size() * pb::Queue_ARRAYSIZE, nullptr) {}

void ProcessBus::Send(int address, const Message& message) {
  if (ProcessAt(address) != process_) {
    const Message sent = ids_.ForPeer(message);
    peers_->Send(ProcessAt(address), {&sent, 1});
  } else {
    sinks_[address]->Post({&message, 1});
  }
}

void ProcessBus::SendAll(absl::Span<const std::pair<int, Message>> messages) {
  std::map<int, std::vector<Message>> by_process;
  for (size_t i = 0; i < messages.size();) {
    const int address = messages[i].first;
    if (ProcessAt(address) != process_) {
      by_process[ProcessAt(address)].push_back(ids_.ForPeer(messages[i++].second));
      continue;
    }
    // What goes to one thread, one after another, is one entry into its mailbox.
    absl::InlinedVector<Message, 8> batch;
    for (; i < messages.size() && messages[i].first == address && batch.size() < 8; ++i) {
      batch.push_back(messages[i].second);
    }
    sinks_[address]->Post(batch);
  }
  for (const auto& [process, batch] : by_process) peers_->Send(process, batch);
}

}  // namespace oneflow
