// A time limit for a destructor that waits for a device. The device may hang, and nothing can interrupt the wait; only
// the end of the process frees it.
//
//   Start() ──► the owner's members are destroyed ──► ~EndLimit: nothing happens
//          └──► the limit is over ──► `end`, on a thread of its own, which is to end the process
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace oneflow {

class EndLimit {
 public:
  EndLimit() = default;
  EndLimit(const EndLimit&) = delete;
  // Waits for `end` if it runs.
  ~EndLimit();

  // Starts the limit. REQUIRES: it has not been started.
  void Start(std::chrono::milliseconds limit, std::function<void()> end);

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool over_ = false;  // guarded by mu_
  std::thread thread_;
};

}  // namespace oneflow
