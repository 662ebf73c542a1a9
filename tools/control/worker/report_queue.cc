#include "tools/control/worker/report_queue.h"

#include <utility>

namespace oneflow {

void ReportQueue::AddFetched(pb::TimedValue value) {
  absl::MutexLock lock(&mu_);
  *batch_.add_values() = std::move(value);
  if (batch_.values_size() >= kBatch) FlushBatch();
}

void ReportQueue::Add(pb::FromWorker message) {
  absl::MutexLock lock(&mu_);
  FlushBatch();
  messages_.push_back(std::move(message));
}

void ReportQueue::Close() {
  absl::MutexLock lock(&mu_);
  FlushBatch();
  closed_ = true;
}

std::optional<pb::FromWorker> ReportQueue::Pop() {
  absl::MutexLock lock(&mu_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !messages_.empty() || closed_; };
  const auto begun = [this, &ready]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ready() || batch_.values_size() > 0; };
  if (!mu_.AwaitWithTimeout(absl::Condition(&begun), heartbeat_)) {
    pb::FromWorker alive;
    alive.mutable_alive();
    return alive;
  }
  if (!mu_.AwaitWithTimeout(absl::Condition(&ready), linger_)) FlushBatch();
  if (messages_.empty()) return std::nullopt;
  pb::FromWorker message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

void ReportQueue::FlushBatch() {
  if (batch_.values().empty()) return;
  batch_.Swap(messages_.emplace_back().mutable_fetched());
}

}  // namespace oneflow
