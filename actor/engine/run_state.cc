#include "actor/engine/run_state.h"

namespace oneflow {

absl::Status RunState::Begin(int threads) {
  std::lock_guard<std::mutex> lock(mu_);
  OF_RETURN_IF_ERROR(failure_);
  OF_RETURN_IF_ERROR(lost_peer_);
  running_threads_ = threads;
  return absl::OkStatus();
}

void RunState::ThreadEnded() {
  std::lock_guard<std::mutex> lock(mu_);
  if (--running_threads_ == 0) changed_.notify_all();
}

bool RunState::Fail(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!failure_.ok()) return false;
  failure_ = status;
  changed_.notify_all();
  return true;
}

bool RunState::LosePeer(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  lost_peer_ = status;
  return running_threads_ > 0;
}

absl::Status RunState::failure() const {
  std::lock_guard<std::mutex> lock(mu_);
  return failure_;
}

bool RunState::WaitFor(std::chrono::milliseconds time) {
  std::unique_lock<std::mutex> lock(mu_);
  return changed_.wait_for(lock, time, [this] { return IsOver(); });
}

}  // namespace oneflow
