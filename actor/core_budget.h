// How many cores the actor threads of a process take, or of all processes of a job on a host, so that one which waits
// looks for mail a while only if no other could use the core meanwhile.
//
// A thread takes cores while it acts, as many as its device may use, whoever else does: it has work, and nothing here
// keeps it from that. One that only looks asks first, and goes to sleep as soon as a thread that works needs the core.
#pragma once

#include <atomic>
#include <cstdint>

namespace oneflow {

class CoreBudget {
 public:
  using Taken = std::atomic<int32_t>;  // 0 at first
  static_assert(Taken::is_always_lock_free, "several processes see it");

  explicit CoreBudget(int cores) : cores_(cores) {}

  // From now on there are `cores`, and those that are taken are counted there, perhaps by other processes too. Before
  // any thread takes one; the memory must outlast the threads.
  void Share(int cores, Taken& taken) {
    cores_ = cores;
    taken_ = &taken;
  }

  // Any thread.
  void Take(int cores) { taken_->fetch_add(cores, std::memory_order_relaxed); }
  void GiveBack(int cores) { taken_->fetch_sub(cores, std::memory_order_relaxed); }
  // Takes one if it is to spare.
  bool TryTakeOne() {
    if (taken_->fetch_add(1, std::memory_order_relaxed) < cores_) return true;
    GiveBack(1);
    return false;
  }
  // Whether more are taken than there are.
  bool exceeded() const { return taken_->load(std::memory_order_relaxed) > cores_; }

 private:
  int cores_;
  Taken own_{0};
  Taken* taken_ = &own_;
};

}  // namespace oneflow
