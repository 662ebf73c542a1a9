// Who reads the events of which job, and how far they are: events that someone may not have read are not thinned.
//
// Not thread-safe; times are told.
#pragma once

#include <cstdint>
#include <deque>
#include <list>

#include "absl/time/time.h"

namespace oneflow {

// Clients come back to a scheduler within a minute (Client::Watch).
inline constexpr absl::Duration kReaderReturns = absl::Minutes(2);
// Events that were sent to a reader and may be lost with its connection: some 250 KiB of a network's buffers.
inline constexpr int64_t kOnTheWay = 4096;

class EventReaders {
 public:
  struct Reader {
    int64_t job = 0;
    int64_t next = 0;                           // to be sent
    absl::Time until = absl::InfiniteFuture();  // when it is no longer thought to come back
  };
  using Handle = std::list<Reader>::iterator;

  // Someone reads the job's events from `next` on. The handle is good until Leave().
  Handle Enter(int64_t job, int64_t next) { return readers_.insert(readers_.end(), {job, next}); }
  // The reader has read those before `next`, which grows.
  static void Move(Handle reader, int64_t next) { reader->next = next; }
  // Its call has ended; it may come back.
  void Leave(Handle reader, absl::Time now);
  // Someone who is not here may come, and has read those before `next`.
  void Expect(int64_t job, int64_t next, absl::Time now);

  // From where on someone may not have read the events of the job; the greatest number if everyone has.
  int64_t FirstUnread(int64_t job, absl::Time now) const;

 private:
  std::list<Reader> readers_;
  std::deque<Reader> left_;  // that may come back, in the order in which they left
};

}  // namespace oneflow
