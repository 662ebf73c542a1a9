// How messages leave an actor thread: to the ranks of this process through their mailboxes, to others over the peer
// network.
#pragma once

#include <utility>

#include "absl/types/span.h"
#include "actor/message.h"

namespace oneflow {

// Where the messages for one rank of this process arrive. Any thread; never blocks for long.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void Post(absl::Span<const Message> messages) = 0;
};

// Messages of one sender to one rank arrive in the order in which they were sent.
class MessageBus {
 public:
  virtual ~MessageBus() = default;
  // Any thread; never blocks for long. A message to a rank that cannot be reached is dropped: whoever noticed the loss
  // reports it.
  virtual void Send(int rank, const Message& message) = 0;
  // Sends all of them, each to the rank it comes with: what one act has to say, which a bus may send on together.
  virtual void SendAll(absl::Span<const std::pair<int, Message>> messages) {
    for (const auto& [rank, message] : messages) Send(rank, message);
  }
};

}  // namespace oneflow
