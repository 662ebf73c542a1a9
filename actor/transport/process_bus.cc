#include "actor/transport/process_bus.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "actor/transport/data_channel.h"
#include "actor/transport/peer_network.h"
#include "actor/transport/shipments.h"

namespace oneflow {

ProcessBus::ProcessBus(int process, std::vector<int> process_of_rank, PeerNetwork* peers, const ProgramIds& ids,
                       std::function<void(absl::Status)> on_error)
    : process_(process),
      process_of_rank_(std::move(process_of_rank)),
      peers_(peers),
      ids_(ids),
      on_error_(std::move(on_error)),
      sinks_(process_of_rank_.size() * kQueuesOfRank, nullptr),
      files_(process_of_rank_.empty() ? 1 : 1 + *std::max_element(process_of_rank_.begin(), process_of_rank_.end())),
      is_far_(files_.size(), false) {}

void ProcessBus::Attach(DataChannel* channel, Shipments& shipments, std::vector<bool> is_far) {
  channel_ = channel;
  shipments_ = shipments.empty() ? nullptr : &shipments;
  is_far_ = std::move(is_far);
}

RingWriter* ProcessBus::RingTo(int address) const {
  PeerMailFile* const file = files_[ProcessAt(address)].get();
  return file == nullptr ? nullptr : file->WriterTo(address);
}

void ProcessBus::Send(int address, const Message& message) {
  const std::pair<int, Message> one(address, message);
  SendAll({&one, 1});
}

void ProcessBus::SendAll(absl::Span<const std::pair<int, Message>> messages) {
  std::map<int, std::vector<Message>> frames, far_frames;  // by process
  for (size_t i = 0; i < messages.size();) {
    const int address = messages[i].first;
    const bool is_here = ProcessAt(address) == process_;
    if (is_far_[ProcessAt(address)]) {
      SendFar(ProcessAt(address), messages[i++].second, far_frames[ProcessAt(address)]);
      continue;
    }
    absl::InlinedVector<Message, 8> batch;
    for (; i < messages.size() && messages[i].first == address && batch.size() < 8; ++i) {
      batch.push_back(is_here ? messages[i].second : ids_.ForPeer(messages[i].second));
    }
    if (is_here && shipments_ != nullptr) {
      PostLanded(address, batch);
    } else if (is_here) {
      sinks_[address]->Post(batch);
    } else if (RingWriter* const ring = RingTo(address)) {
      const absl::Status status = ring->Write(batch, now_ns_());
      if (!status.ok()) on_error_(Annotate(status, absl::StrCat("to rank ", RankAt(address))));
    } else {
      std::vector<Message>& frame = frames[ProcessAt(address)];
      frame.insert(frame.end(), batch.begin(), batch.end());
    }
  }
  for (const auto& [process, frame] : frames) peers_->Send(process, frame);
  for (const auto& [process, frame] : far_frames) channel_->SendMessages(process, frame);
}

void ProcessBus::SendFar(int process, const Message& message, std::vector<Message>& frame) {
  Shipment* const shipment = shipments_ == nullptr ? nullptr : shipments_->Of(message);
  if (shipment == nullptr) return frame.push_back(ids_.ForPeer(message));
  shipments_->OnFilled(message, *shipment, [&](const Message& filled, const Shipment& of) {
    channel_->SendShipment(process, DataChannel::Use::kFilled, ids_.ForPeer(filled), of, filled.slot);
  });
}

// Between hosts of the plan that are one process: with the data of the messages.
void ProcessBus::PostLanded(int address, absl::Span<const Message> messages) {
  absl::InlinedVector<Message, 8> ready;
  for (const Message& message : messages) {
    Shipment* const shipment = shipments_->Of(message);
    if (shipment == nullptr) {
      ready.push_back(message);
      continue;
    }
    shipments_->OnFilled(message, *shipment, [&](const Message& filled, const Shipment& of) {
      of.CopyTo(filled.slot, shipments_->LandingOf(filled)->slot(filled.slot));
      ready.push_back(filled);
    });
  }
  if (!ready.empty()) sinks_[address]->Post(ready);
}

void ProcessBus::SendInitial(int address, const Message& message) {
  const int process = ProcessAt(address);
  const Shipment& shipment = *shipments_->Of(message);
  if (process == process_) {
    return shipment.CopyTo(message.slot, shipments_->LandingOf(message)->slot(message.slot));
  }
  channel_->SendShipment(process, DataChannel::Use::kInitial, ids_.ForPeer(message), shipment, message.slot);
}

}  // namespace oneflow
