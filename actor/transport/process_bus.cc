#include "actor/transport/process_bus.h"

#include "absl/container/inlined_vector.h"
#include "oneflow_core/queues.h"

namespace oneflow {

ProcessBus::ProcessBus(RouteContext context, std::vector<int> process_of_rank, const std::vector<bool>& is_far,
                       std::map<int, std::unique_ptr<PeerMailFile>> files)
    : context_(std::move(context)), files_(std::move(files)), sinks_(process_of_rank.size() * kNumQueues, nullptr) {
  std::map<std::pair<const RouteKind*, int>, Route*> of_process;
  for (int address = 0; address < static_cast<int>(sinks_.size()); ++address) {
    const int process = process_of_rank[RankAt(address)];
    const auto file = files_.find(process);
    const RouteEnd end = {.address = address,
                          .process = process,
                          .is_far = is_far[process],
                          .sink = &sinks_[address],
                          .ring = file == files_.end() ? nullptr : file->second->WriterTo(address)};
    const RouteKind& kind = KindOf(context_, end);
    Route*& shared = of_process[{&kind, process}];
    if (!kind.of_process || shared == nullptr) shared = routes_.emplace_back(kind.make(context_, end)).get();
    route_at_.push_back(shared);
  }
}

void ProcessBus::Send(int address, const Message& message) {
  const std::pair<int, Message> one(address, message);
  SendAll({&one, 1});
}

void ProcessBus::SendAll(absl::Span<const std::pair<int, Message>> messages) {
  Gathering gathering;
  for (size_t i = 0; i < messages.size();) {
    const int address = messages[i].first;
    absl::InlinedVector<Message, 8> batch;
    for (; i < messages.size() && messages[i].first == address && batch.size() < 8; ++i) {
      batch.push_back(messages[i].second);
    }
    route_at_[address]->Send(batch, gathering);
  }
  gathering.Flush();
}

}  // namespace oneflow
