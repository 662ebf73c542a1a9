// Many threads put mail in, one takes all of it out at once.
//
// The owner looks without locking, takes everything with one swap, and sleeps only when there is nothing; senders wake
// it only when it sleeps. So a busy owner costs a sender one uncontended lock. Standard mutexes, because thread
// sanitizers know them, however the libraries around us were compiled.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "actor/doorbell.h"

namespace oneflow {

template <typename T>
class Mailbox {
 public:
  Mailbox() : bell_(own_bell_) {}
  // `bell` is borrowed: for an owner with mail from elsewhere too, which sleeps there.
  explicit Mailbox(Doorbell::Word& bell) : bell_(bell) {}

  // Any thread.
  void Push(const T& item) { Push(&item, 1); }
  void Push(const T* items, size_t count) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      items_.insert(items_.end(), items, items + count);
    }
    has_mail_.store(true);  // not sooner: an owner that looks would come while the lock is taken, and sleep
    Doorbell::Ring(bell_);
  }

  // The following are for the owner alone.
  // Whether TakeAll() would find something; may be wrong for a moment, never for good.
  bool HasMail() const { return has_mail_.load(); }
  // Replaces the contents of `into` by all mail, in the order of arrival.
  void TakeAll(std::vector<T>& into) {
    into.clear();
    std::lock_guard<std::mutex> lock(mu_);
    items_.swap(into);
    has_mail_.store(false, std::memory_order_relaxed);
  }
  // Returns when there is mail; sleeps until then.
  void Wait() {
    Doorbell::Sleep(bell_, [this] { return HasMail(); });
  }

 private:
  std::mutex mu_;
  std::vector<T> items_;  // guarded by mu_
  std::atomic<bool> has_mail_{false};
  Doorbell::Word own_bell_{0};
  Doorbell::Word& bell_;
};

}  // namespace oneflow
