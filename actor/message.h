// The two messages of the runtime. `filled` travels from a register's producer to each consumer, `freed` from each
// consumer back to the producer; nothing else ever passes between actors.
//
//   producer ──filled(slot)──► consumer
//            ◄──freed(slot)───
//
// A message names its target actor and the register, never a pointer, so it means the same in every process. All its
// bytes are defined: messages are sent as they lie in memory.
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

struct Message {
  enum class Kind : uint8_t { kFilled = 0, kFreed = 1 };

  Kind kind = Kind::kFilled;
  uint8_t number = 0;  // of the filling among those of its register, from 0, modulo 256
  uint16_t plan = 0;   // index in the plan set
  int32_t actor = 0;   // the receiver
  int32_t register_id = 0;
  int32_t slot = 0;

  bool operator==(const Message& o) const {
    return kind == o.kind && number == o.number && plan == o.plan && actor == o.actor && register_id == o.register_id &&
           slot == o.slot;
  }
};
static_assert(sizeof(Message) == 16);

using OutgoingMessages = std::vector<Message>;

}  // namespace oneflow
