// What a data channel carries: frames, each a header with messages or with a piece of a payload. Pure: no network.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "actor/message.h"
#include "actor/transport/data_channel.h"
#include "actor/transport/payload.h"
#include "oneflow_core/frames.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Before all sent data. Its bytes are sent as they lie in memory.
struct ChannelHeader {
  uint64_t stamp = 0;
  int32_t process = 0;  // the sender
  uint8_t use = 0;      // DataChannel::Use; 0: messages follow
  uint8_t reserved[3] = {};
  Message message;
  int64_t offset = 0;     // where a piece lands
  int64_t num_bytes = 0;  // of the payload
  uint64_t number = 0;    // of what is sealed
};
static_assert(sizeof(ChannelHeader) == kChannelHeaderBytes && sizeof(Message) == kMessageBytes);

inline absl::string_view BytesOf(const ChannelHeader& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

// Takes in the frames of all peers, whose senders are known by now.
class ArrivingFrames {
 public:
  // Gives `receiver` what the frame completes. InvalidArgument if it makes no sense; errors of Receiver::RoomFor.
  absl::Status Take(const ChannelHeader& header, const void* data, size_t length, DataChannel::Receiver& receiver);
  // Whether some payload has come in part.
  bool HasParts() const { return payloads_.any(); }

 private:
  absl::Status TakePiece(const ChannelHeader& header, const void* data, int64_t length,
                         DataChannel::Receiver& receiver);

  ArrivingPayloads payloads_;
};

}  // namespace oneflow
