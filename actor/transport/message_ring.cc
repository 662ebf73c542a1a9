#include "actor/transport/message_ring.h"

#include "absl/strings/str_cat.h"

namespace oneflow {

absl::Status RingWriter::Write(absl::Span<const Message> messages, int64_t sent_ns) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    const uint64_t under_way = written_ - ring_.read.load(std::memory_order_acquire);
    if (under_way > capacity_ || messages.size() > capacity_ - under_way) {
      return absl::ResourceExhaustedError(
          absl::StrCat(messages.size(), " messages beside ", under_way, " in a ring of ", capacity_));
    }
    for (const Message& message : messages) ring_.entries()[written_++ % capacity_] = {message, sent_ns};
    ring_.written.store(written_);
  }
  Doorbell::Ring(bell_);
  return absl::OkStatus();
}

absl::Status RingReader::Nonsense(uint64_t written) const {
  return absl::InvalidArgumentError(
      absl::StrCat(written, " messages were written after ", read_, " were read of a ring of ", capacity_));
}

absl::Status RingReader::UnknownKind(const Message& message) {
  return absl::InvalidArgumentError(absl::StrCat("message kind ", static_cast<int>(message.kind), " is unknown"));
}

}  // namespace oneflow
