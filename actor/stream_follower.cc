#include "actor/stream_follower.h"

#include <utility>

namespace oneflow {

StreamFollower::StreamFollower(DeviceContext& device) : device_(device), thread_([this] { Loop(); }) {}

StreamFollower::~StreamFollower() {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    quit_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StreamFollower::Follow(int event, Then then) {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    places_.push_back({event, std::move(then)});
  }
  changed_.notify_one();
}

void StreamFollower::Loop() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    changed_.wait(lock, [this] { return quit_ || !places_.empty(); });
    if (places_.empty()) return;
    const Place place = std::move(places_.front());
    places_.pop_front();
    lock.unlock();
    place.then(device_.WaitEvent(place.event));
    lock.lock();
  }
}

}  // namespace oneflow
