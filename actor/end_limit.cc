#include "actor/end_limit.h"

#include <utility>

namespace oneflow {

EndLimit::~EndLimit() {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EndLimit::Start(std::chrono::milliseconds limit, std::function<void()> end) {
  thread_ = std::thread([this, limit, end = std::move(end)] {
    std::unique_lock<std::mutex> lock(mu_);
    if (!changed_.wait_for(lock, limit, [this] { return over_; })) end();
  });
}

}  // namespace oneflow
