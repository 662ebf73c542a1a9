// The mail of a thread from other processes of the host, through shared memory.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/doorbell.h"
#include "actor/transport/message_ring.h"
#include "actor/transport/program_ids.h"
#include "oneflow_core/status.h"

namespace oneflow {

class Inbox {
 public:
  // A ring for each process that sends; they ring `bell`. Borrows the bell, `ids` and the rings' memory.
  Inbox(std::vector<std::pair<int, RingReader>> rings, Doorbell::Word& bell, const ProgramIds& ids)
      : rings_(std::move(rings)), bell_(bell), ids_(ids) {}

  // All of these for the owner alone.
  Doorbell::Word& bell() const { return bell_; }
  bool HasMail() const {
    for (const auto& [process, ring] : rings_) {
      if (ring.HasMail()) return true;
    }
    return false;
  }
  // Calls take(message, sent_ns) for everything there, each sender's in order. InvalidArgument, naming the sender, if
  // it makes no sense.
  template <typename Take>
  absl::Status TakeAll(Take take) {
    for (auto& [process, ring] : rings_) {
      absl::Status unknown;
      const absl::Status status = ring.TakeAll([&](const Message& message, int64_t sent_ns) {
        if (const std::optional<Message> known = ids_.FromPeer(message)) return take(*known, sent_ns);
        if (unknown.ok()) unknown = NotHere(message);
      });
      OF_RETURN_IF_ERROR_AT(status.ok() ? unknown : status, absl::StrCat("process ", process));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status NotHere(const Message& message) {
    return absl::InvalidArgumentError(absl::StrCat("a message for plan ", message.plan, " actor ", message.actor,
                                                   " register ", message.register_id, ", which is not here"));
  }

  std::vector<std::pair<int, RingReader>> rings_;
  Doorbell::Word& bell_;
  const ProgramIds& ids_;
};

}  // namespace oneflow
