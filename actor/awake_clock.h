// Time in which this process ran, by which it may judge others.
//
// A process that is stopped (a batch system's suspend, a frozen container, a virtual machine that is moved) hears
// nobody meanwhile, and when it goes on its clocks have jumped: whoever it waited for looks late, and may have been
// stopped with it. So whoever waits looks at this clock every now and then, and of a gap between two looks only a part
// counts.
#pragma once

#include <algorithm>
#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace oneflow {

// Single-threaded.
class AwakeClock {
 public:
  using Point = std::chrono::steady_clock::time_point;

  // How often waiting code looks, and the gap that is still the doing of a busy machine: ten looks missed.
  static constexpr absl::Duration kLook = absl::Milliseconds(100);
  static constexpr absl::Duration kLongestGap = absl::Seconds(1);

  explicit AwakeClock(Point now = std::chrono::steady_clock::now()) : last_(now) {}

  // The time awake since the beginning. To be called about every kLook.
  absl::Duration Look(Point now = std::chrono::steady_clock::now()) {
    const absl::Duration gap = absl::FromChrono(now - last_);
    slept_ = gap > kLongestGap ? gap - kLook : absl::ZeroDuration();
    awake_ += gap - slept_;
    last_ = now;
    return awake_;
  }
  // Of the last gap, what does not count.
  absl::Duration slept() const { return slept_; }

 private:
  Point last_;
  absl::Duration awake_, slept_;
};

// As absl::Mutex::AwaitWithTimeout(), in time awake.
inline bool AwaitAwake(absl::Mutex& mu, const absl::Condition& condition, absl::Duration timeout)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
  AwakeClock clock;
  absl::Duration left = timeout;
  while (left > absl::ZeroDuration()) {
    if (mu.AwaitWithTimeout(condition, std::min(left, AwakeClock::kLook))) return true;
    left = timeout - clock.Look();
  }
  return condition.Eval();
}

}  // namespace oneflow
