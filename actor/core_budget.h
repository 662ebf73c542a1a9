// How many of a process' cores its actor threads take, so that one which waits looks for mail a while only if no other
// could use the core meanwhile.
//
// A thread takes cores while it acts, as many as its device may use, whoever else does: it has work, and nothing here
// keeps it from that. One that only looks asks first, and goes to sleep as soon as a thread that works needs the core.
#pragma once

#include <atomic>

namespace oneflow {

class CoreBudget {
 public:
  explicit CoreBudget(int cores) : cores_(cores) {}

  // Any thread.
  void Take(int cores) { taken_.fetch_add(cores, std::memory_order_relaxed); }
  void GiveBack(int cores) { taken_.fetch_sub(cores, std::memory_order_relaxed); }
  // Takes one if it is to spare.
  bool TryTakeOne() {
    if (taken_.fetch_add(1, std::memory_order_relaxed) < cores_) return true;
    GiveBack(1);
    return false;
  }
  // Whether more are taken than there are.
  bool exceeded() const { return taken_.load(std::memory_order_relaxed) > cores_; }

 private:
  const int cores_;
  std::atomic<int> taken_{0};
};

}  // namespace oneflow
