// Time in which this process ran, for judging others.
//
// A process may be stopped (a batch system's suspend, a frozen container, a virtual machine that is moved). It then
// hears nobody, and its clocks jump when it goes on: its peers look late, though they may have been stopped with it. So
// waiting code looks at this clock regularly, and of a long gap between two looks only a part counts.
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

  // How often waiting code looks, and the longest gap that a busy machine explains: ten missed looks.
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
  // The part of the last gap that does not count.
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
