// Counts the cores that actor threads use, of one process or of all processes of a job on a host, so that an idle
// thread spins only while no other needs the core.
//
// A thread takes cores while it acts, as many as its device may use, even if others do too: it has work. An idle thread
// asks for a core before it spins, and sleeps as soon as a working thread needs it.
#pragma once

#include <atomic>
#include <cstdint>

namespace oneflow {

class CoreBudget {
 public:
  using Taken = std::atomic<int32_t>;  // 0 at first
  static_assert(Taken::is_always_lock_free, "several processes see it");

  explicit CoreBudget(int cores) : cores_(cores) {}

  // From now on there are `cores`, and taken ones are counted in `taken`, perhaps by other processes too. Before any
  // thread takes one; the memory must outlast the threads.
  void Share(int cores, Taken& taken) {
    cores_ = cores;
    taken_ = &taken;
  }

  // Any thread.
  void Take(int cores) { taken_->fetch_add(cores, std::memory_order_relaxed); }
  void GiveBack(int cores) { taken_->fetch_sub(cores, std::memory_order_relaxed); }
  // Takes one if it is free.
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
