// A queue between those who have something to say and the one thread that writes it to a stream.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "actor/awake_clock.h"

namespace oneflow {

// Thread-safe. Never blocks the pushing side: what is pushed here is control, small against what the stream can carry.
template <typename T>
class Outbox {
 public:
  // Dropped if the box is closed.
  void Push(T item) {
    absl::MutexLock lock(&mu_);
    if (!closed_) items_.push_back(std::move(item));
  }
  // What was pushed before is still popped.
  void Close() {
    absl::MutexLock lock(&mu_);
    closed_ = true;
  }
  // The next item; nothing after `timeout` in time awake (actor/awake_clock.h), or when done.
  std::optional<T> Pop(absl::Duration timeout = absl::InfiniteDuration()) {
    absl::MutexLock lock(&mu_);
    const absl::Condition changed(
        +[](Outbox* box) { return box->closed_ || !box->items_.empty(); }, this);
    if (timeout == absl::InfiniteDuration()) {
      mu_.Await(changed);
    } else {
      AwaitAwake(mu_, changed, timeout);
    }
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }
  // Closed, and all is popped.
  bool done() {
    absl::MutexLock lock(&mu_);
    return closed_ && items_.empty();
  }

 private:
  absl::Mutex mu_;
  std::deque<T> items_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace oneflow
