#include "actor/transport/channel_frame.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

absl::Status TakeMessages(int process, const void* data, size_t length, DataChannel::Receiver& receiver) {
  if (length % sizeof(Message) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(length, " bytes are no messages of ", sizeof(Message)));
  }
  std::vector<Message> messages(length / sizeof(Message));
  if (length > 0) std::memcpy(messages.data(), data, length);
  for (const Message& message : messages) {
    if (message.kind == Message::Kind::kFilled || message.kind == Message::Kind::kFreed) continue;
    return absl::InvalidArgumentError(absl::StrCat("a message of kind ", static_cast<int>(message.kind)));
  }
  receiver.OnMessages(process, messages);
  return absl::OkStatus();
}

}  // namespace

absl::Status ArrivingFrames::Take(const ChannelHeader& header, const void* data, size_t length,
                                  DataChannel::Receiver& receiver) {
  return header.use == 0 ? TakeMessages(header.process, data, length, receiver)
                         : TakePiece(header, data, static_cast<int64_t>(length), receiver);
}

absl::Status ArrivingFrames::TakePiece(const ChannelHeader& header, const void* data, int64_t length,
                                       DataChannel::Receiver& receiver) {
  const auto use = static_cast<DataChannel::Use>(header.use);
  if (header.message.kind != Message::Kind::kFilled) return absl::InvalidArgumentError("a payload without 'filled'");
  OF_ASSIGN_OR_RETURN(const absl::Span<char> room, receiver.RoomFor(use, header.message, header.num_bytes));
  OF_ASSIGN_OR_RETURN(const bool complete, payloads_.Add(header.process, header.use, header.message, header.offset,
                                                         length, header.num_bytes, static_cast<int64_t>(room.size())));
  if (length > 0) std::memcpy(room.data() + header.offset, data, length);
  if (complete) receiver.OnArrived(header.process, use, header.message);
  return absl::OkStatus();
}

}  // namespace oneflow
