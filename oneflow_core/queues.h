// The queues of a rank: serial resources whose acts run one at a time, while acts of different queues run at the same
// time as far as waits allow. Plans and programs name a queue by its number. Everything that differs between queues is
// a column of this table, for the compiler, the runtime and the tools: a new queue is an enumerator and a row.
//
//   queue           on a cpu device                  on a device with streams
//   compute         a thread, all cores              a stream; its thread launches for all that launch
//   communication   a thread, one core at most       a stream with priority
//   host            a thread, one core at most       a thread, one core at most
//   beside          a thread, one core at most       not used
//   load, store     a thread, one core at most       a stream: copies from and to the host's memory (tiers.h)
//   read, write     a thread, one core at most       a thread, one core at most: of the disk
#pragma once

#include <cstddef>
#include <iterator>

namespace oneflow {

enum Queue : int {
  kComputeQueue = 0,
  kCommunicationQueue = 1,  // boxing
  kHostQueue = 2,           // reading and fetching
  kBesideQueue = 3,         // all of a plan that runs beside others
  kLoadQueue = 4,           // from the host's memory to the device
  kStoreQueue = 5,          // and back
  kReadQueue = 6,           // from disk to the device
  kWriteQueue = 7,          // and back
};

struct QueueKind {
  Queue queue;
  const char* name;
  // Every rank has it, with all cores of its device; another one is opened where actors are on it. Exactly one is main.
  bool is_main;
  // Its acts are launched: on a device with streams it has one, and the main queue's thread launches for it. Acts that
  // are not launched sleep and work on the host, so they never share a thread.
  bool launches;
  // Its acts move data between ranks. Peers wait for them, so its stream goes before others; collectives are on such a
  // queue alone.
  bool moves_between_ranks;
  // Its acts copy between tiers of memory of the rank.
  bool of_tier = false;
};

// By number.
inline constexpr QueueKind kQueues[] = {
    {.queue = kComputeQueue, .name = "compute", .is_main = true, .launches = true, .moves_between_ranks = false},
    {.queue = kCommunicationQueue,
     .name = "communication",
     .is_main = false,
     .launches = true,
     .moves_between_ranks = true},
    {.queue = kHostQueue, .name = "host", .is_main = false, .launches = false, .moves_between_ranks = false},
    {.queue = kBesideQueue, .name = "beside", .is_main = false, .launches = true, .moves_between_ranks = true},
    {.queue = kLoadQueue,
     .name = "load",
     .is_main = false,
     .launches = true,
     .moves_between_ranks = false,
     .of_tier = true},
    {.queue = kStoreQueue,
     .name = "store",
     .is_main = false,
     .launches = true,
     .moves_between_ranks = false,
     .of_tier = true},
    {.queue = kReadQueue,
     .name = "read",
     .is_main = false,
     .launches = false,
     .moves_between_ranks = false,
     .of_tier = true},
    {.queue = kWriteQueue,
     .name = "write",
     .is_main = false,
     .launches = false,
     .moves_between_ranks = false,
     .of_tier = true},
};
inline constexpr int kNumQueues = static_cast<int>(std::size(kQueues));
static_assert(
    [] {
      int main = 0;
      for (int i = 0; i < kNumQueues; ++i) {
        if (kQueues[i].queue != i) return false;
        main += kQueues[i].is_main;
      }
      return main == 1;
    }(),
    "rows are by number, and one queue is main");

// Whether a number from outside is one of a queue.
constexpr bool IsQueue(int queue) { return queue >= 0 && queue < kNumQueues; }
// REQUIRES: IsQueue(queue).
constexpr const QueueKind& QueueKindOf(int queue) { return kQueues[queue]; }
// For people; "?" if there is no such queue.
constexpr const char* QueueName(int queue) { return IsQueue(queue) ? QueueKindOf(queue).name : "?"; }
// The queue that every rank has.
constexpr Queue MainQueue() {
  for (const QueueKind& kind : kQueues) {
    if (kind.is_main) return kind.queue;
  }
  return kQueues[0].queue;
}

// The address of an actor: a queue of a rank.
constexpr int AddressOf(int rank, int queue) { return rank * kNumQueues + queue; }
constexpr int RankAt(int address) { return address / kNumQueues; }
constexpr int QueueAt(int address) { return address % kNumQueues; }

}  // namespace oneflow
