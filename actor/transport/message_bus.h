// The way of messages out of an actor thread: to the ranks of this process through their mailboxes, to others over the
// peer network.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/types/span.h"
#include "actor/message.h"

namespace oneflow {

// Receives the messages for a queue of a rank of this process. Any thread; never blocks for long.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void Post(absl::Span<const Message> messages) = 0;
};

// Messages of one sender to one address arrive in the order in which they were sent.
class MessageBus {
 public:
  virtual ~MessageBus() = default;
  // Any thread; never blocks for long. A message to an unreachable address is dropped: whoever noticed the loss reports
  // it.
  virtual void Send(int address, const Message& message) = 0;
  // Sends all of them, each to its address: the messages of one act, which a bus may send on together.
  virtual void SendAll(absl::Span<const std::pair<int, Message>> messages) {
    for (const auto& [address, message] : messages) Send(address, message);
  }
};

}  // namespace oneflow
