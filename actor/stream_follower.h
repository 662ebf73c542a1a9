// Runs functions once a device's stream has reached a point, on a thread that sleeps until then. So the launching
// thread goes on meanwhile, sleeps too, or waits within a launch for a peer that hears of us only from here.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "kernels/device.h"

namespace oneflow {

// On the follower's thread: null, or the error that the device met before that point.
using Then = std::function<void(const char* error)>;

class StreamFollower {
 public:
  // `device` is borrowed.
  explicit StreamFollower(DeviceContext& device);
  // Waits until the stream has reached every point.
  ~StreamFollower();

  // Calls `then` once the event has come; calls are made in the order of this function's.
  void Follow(int event, Then then);

 private:
  struct Place {
    int event;
    Then then;
  };
  void Loop();

  DeviceContext& device_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<Place> places_;  // guarded by mu_
  bool quit_ = false;         // guarded by mu_
  std::thread thread_;        // last: uses the members above
};

}  // namespace oneflow
