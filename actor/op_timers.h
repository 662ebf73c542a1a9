// The time of instructions, by op. One thread writes, any reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actor/engine.h"

namespace oneflow {

class OpTimers {
 public:
  struct Timer {
    // The writer's thread.
    void Add(int64_t nanoseconds) {
      calls.fetch_add(1, std::memory_order_relaxed);
      ns.fetch_add(nanoseconds, std::memory_order_relaxed);
    }

    std::atomic<int64_t> calls{0};
    std::atomic<int64_t> ns{0};
  };

  // The timer of an op; it stays where it is. While loading only.
  Timer& Of(const std::string& op) { return timers_[op]; }

  // So far, ordered by name.
  std::vector<OpTime> times() const {
    std::vector<OpTime> times;
    for (const auto& [op, timer] : timers_) {
      times.push_back({op, timer.calls.load(std::memory_order_relaxed),
                       static_cast<double>(timer.ns.load(std::memory_order_relaxed)) * 1e-9});
    }
    return times;
  }

 private:
  std::map<std::string, Timer> timers_;
};

}  // namespace oneflow
