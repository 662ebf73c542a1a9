// A ring of messages in memory that two processes see: one writes, the other reads.
//
//   ring   | written | read | entry 0 | entry 1 | ... | entry capacity - 1 |
//
// Both counts only grow; entry i of all lies at i mod capacity. Each count is written by one end, and neither end
// believes the other beyond plausible values. There is room for everything that can be on its way, so writing never
// waits: a lack of room is an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "absl/types/span.h"
#include "actor/doorbell.h"
#include "actor/message.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct RingMemory {
  struct Entry {
    Message message;
    int64_t sent_ns;  // 0 if no clock was read
  };
  // Each on a cache line of its own.
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;

  Entry* entries() { return reinterpret_cast<Entry*>(this + 1); }
  // Of zeros, this many bytes are an empty ring.
  static int64_t NumBytes(uint32_t capacity) {
    return static_cast<int64_t>(sizeof(RingMemory) + capacity * sizeof(Entry));
  }
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class RingWriter {
 public:
  // Both borrowed. The bell is that of whoever reads the ring.
  RingWriter(RingMemory& ring, uint32_t capacity, Doorbell::Word& bell)
      : ring_(ring), capacity_(capacity), bell_(bell) {}

  // Any thread. ResourceExhausted, with nothing written, if there is not room for all.
  absl::Status Write(absl::Span<const Message> messages, int64_t sent_ns);

 private:
  RingMemory& ring_;
  const uint32_t capacity_;
  Doorbell::Word& bell_;
  std::mutex mu_;
  uint64_t written_ = 0;  // guarded by mu_
};

class RingReader {
 public:
  // Borrowed.
  RingReader(RingMemory& ring, uint32_t capacity) : ring_(&ring), capacity_(capacity) {}

  // One thread only.
  bool HasMail() const { return ring_->written.load() != read_; }
  // Calls take(message, sent_ns) for everything there. InvalidArgument if the entries are no messages.
  template <typename Take>
  absl::Status TakeAll(Take take) {
    const uint64_t written = ring_->written.load();
    if (written - read_ > capacity_) return Nonsense(written);
    while (read_ != written) {
      const RingMemory::Entry entry = ring_->entries()[read_ % capacity_];  // a copy, which the writer cannot change
      if (entry.message.kind != Message::Kind::kFilled && entry.message.kind != Message::Kind::kFreed)
        return UnknownKind(entry.message);
      ring_->read.store(++read_, std::memory_order_release);
      take(entry.message, entry.sent_ns);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Nonsense(uint64_t written) const;
  static absl::Status UnknownKind(const Message& message);

  RingMemory* ring_;
  uint32_t capacity_;
  uint64_t read_ = 0;
};

}  // namespace oneflow
