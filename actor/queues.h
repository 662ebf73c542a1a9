// The queues of a rank: serial resources whose acts run one at a time. Everything that differs between queues is a
// column of this table, so a new queue is a value of pb::Queue and a row.
//
//   queue           on a cpu device                  on a device with streams
//   compute         a thread, all cores              a stream; its thread launches for all that launch
//   communication   a thread, one core at most       a stream with priority
//   host            a thread, one core at most       a thread, one core at most
#pragma once

#include <cstddef>
#include <iterator>

#include "proto/program.pb.h"

namespace oneflow {

struct QueueKind {
  pb::Queue queue;
  const char* name;
  // Every rank has it, with all cores of its device; another one is opened where actors are on it. Exactly one is main.
  bool is_main;
  // Its acts are launched: on a device with streams it has one, and the main queue's thread launches for it. Acts that
  // are not launched sleep and work on the host, so they never share a thread.
  bool launches;
  // Its acts move data between ranks. Peers wait for them, so its stream goes before others; collectives are on such a
  // queue alone.
  bool moves_between_ranks;
};

// By number.
inline constexpr QueueKind kQueues[] = {
    {.queue = pb::COMPUTE, .name = "compute", .is_main = true, .launches = true, .moves_between_ranks = false},
    {.queue = pb::COMMUNICATION,
     .name = "communication",
     .is_main = false,
     .launches = true,
     .moves_between_ranks = true},
    {.queue = pb::HOST, .name = "host", .is_main = false, .launches = false, .moves_between_ranks = false},
};
static_assert(std::size(kQueues) == pb::Queue_ARRAYSIZE, "every queue has a row");
static_assert(
    [] {
      int main = 0;
      for (size_t i = 0; i < std::size(kQueues); ++i) {
        if (kQueues[i].queue != static_cast<pb::Queue>(i)) return false;
        main += kQueues[i].is_main;
      }
      return main == 1;
    }(),
    "rows are by number, and one queue is main");

// REQUIRES: pb::Queue_IsValid(queue).
constexpr const QueueKind& KindOf(pb::Queue queue) { return kQueues[queue]; }

// For people; "?" if there is no such queue.
inline const char* QueueName(int queue) {
  return pb::Queue_IsValid(queue) ? KindOf(static_cast<pb::Queue>(queue)).name : "?";
}
// The queue that every rank has.
constexpr pb::Queue MainQueue() {
  for (const QueueKind& kind : kQueues) {
    if (kind.is_main) return kind.queue;
  }
  return kQueues[0].queue;
}

// The actors' address: a queue of a rank.
constexpr int kQueuesOfRank = static_cast<int>(std::size(kQueues));
constexpr int AddressOf(int rank, pb::Queue queue) { return rank * kQueuesOfRank + queue; }
constexpr int RankAt(int address) { return address / kQueuesOfRank; }
constexpr pb::Queue QueueAt(int address) { return static_cast<pb::Queue>(address % kQueuesOfRank); }

}  // namespace oneflow
