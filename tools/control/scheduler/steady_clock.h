// The scheduler's clock: the time of day when it was made, and steady from there. Leases must not expire because
// someone sets the clock.
#pragma once

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace oneflow {

// Thread-safe.
class SteadyClock {
 public:
  absl::Time Now() const { return start_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_); }

 private:
  const absl::Time start_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();
};

}  // namespace oneflow
