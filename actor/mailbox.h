// Many threads put mail in, one takes all of it out at once.
//
// The owner looks without locking, takes everything with one swap, and parks only when there is nothing; senders wake
// it only when it is parked. So a busy owner costs a sender one uncontended lock. Standard mutexes, because thread
// sanitizers know them whoever compiled the libraries around us.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace oneflow {

template <typename T>
class Mailbox {
 public:
  // Any thread.
  void Push(const T& item) { Push(&item, 1); }
  void Push(const T* items, size_t count) {
    bool wake = false;
    {
      std::lock_guard<std::mutex> lock(mu_);
      items_.insert(items_.end(), items, items + count);
      has_mail_.store(true, std::memory_order_release);
      std::swap(wake, parked_);
    }
    if (wake) mail_.notify_one();
  }

  // The following are for the owner alone.
  // Whether TakeAll() would find something; may be late by a moment.
  bool HasMail() const { return has_mail_.load(std::memory_order_acquire); }
  // Replaces the contents of `into` by all mail, in the order of arrival.
  void TakeAll(std::vector<T>& into) {
    into.clear();
    std::lock_guard<std::mutex> lock(mu_);
    items_.swap(into);
    has_mail_.store(false, std::memory_order_relaxed);
  }
  // Looks for mail until there is some, or `may_look` says that it has looked for long enough.
  template <typename MayLook>
  void Look(MayLook may_look) const {
    while (!HasMail() && may_look()) __builtin_ia32_pause();
  }
  // Returns when there is mail; sleeps until then.
  void Wait() {
    std::unique_lock<std::mutex> lock(mu_);
    while (items_.empty()) {
      parked_ = true;
      mail_.wait(lock);
    }
    parked_ = false;
  }

 private:
  std::mutex mu_;
  std::condition_variable mail_;
  std::vector<T> items_;  // guarded by mu_
  bool parked_ = false;   // guarded by mu_
  std::atomic<bool> has_mail_{false};
};

}  // namespace oneflow
