// What a worker has to tell its daemon, in order, with fetched values gathered into batches.
//
// Values come one by one from threads that must not wait (a loss per step, thousands of steps a second); a batch leaves
// when it is full, when its first value has lingered long enough, or when something else must be said after it. Where
// there is nothing to tell for a while, that is told: a process that says nothing is not running.
#pragma once

#include <deque>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace oneflow {

// Thread-safe; one thread pops.
class ReportQueue {
 public:
  static constexpr int kBatch = 64;
  // 100 ms: for a person watching it is at once.
  explicit ReportQueue(absl::Duration linger = absl::Milliseconds(100),
                       absl::Duration heartbeat = absl::InfiniteDuration())
      : linger_(linger), heartbeat_(heartbeat) {}

  void AddFetched(pb::TimedValue value);
  // After all values added before it.
  void Add(pb::FromWorker message);
  // What was added before is still popped.
  void Close();

  // The next message, waiting for it; `alive` if none has come for a heartbeat; nothing when closed and empty.
  std::optional<pb::FromWorker> Pop();

 private:
  void FlushBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const absl::Duration linger_, heartbeat_;
  absl::Mutex mu_;
  std::deque<pb::FromWorker> messages_ ABSL_GUARDED_BY(mu_);
  pb::WorkerFetched batch_ ABSL_GUARDED_BY(mu_);  // behind all messages
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace oneflow
