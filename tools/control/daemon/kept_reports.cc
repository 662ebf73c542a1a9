#include "tools/control/daemon/kept_reports.h"

#include <utility>

namespace oneflow {

int64_t KeptReports::Add(pb::FromDaemon report) {
  absl::MutexLock lock(&mu_);
  report.set_number(++last_number_);
  bytes_ += report.ByteSizeLong();
  kept_.push_back(std::move(report));
  return last_number_;
}

bool KeptReports::AwaitRoom(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(
                                  +[](KeptReports* self) { return self->bytes_ < self->most_bytes_; }, this),
                              timeout);
}

size_t KeptReports::num_bytes() {
  absl::MutexLock lock(&mu_);
  return bytes_;
}

void KeptReports::Stored(int64_t number) {
  absl::MutexLock lock(&mu_);
  while (!kept_.empty() && kept_.front().number() <= number) {
    bytes_ -= kept_.front().ByteSizeLong();
    kept_.pop_front();
    if (next_ > 0) --next_;
  }
}

void KeptReports::BeginSession() {
  absl::MutexLock lock(&mu_);
  in_session_ = true;
  next_ = 0;
}

void KeptReports::EndSession() {
  absl::MutexLock lock(&mu_);
  in_session_ = false;
  for_session_.clear();
}

bool KeptReports::session_ended() {
  absl::MutexLock lock(&mu_);
  return !in_session_;
}

void KeptReports::AddForSession(pb::FromDaemon message) {
  absl::MutexLock lock(&mu_);
  if (in_session_) for_session_.push_back(std::move(message));
}

std::optional<pb::FromDaemon> KeptReports::Next(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(
                           +[](KeptReports* self) { return !self->in_session_ || self->HasNext(); }, this),
                       timeout);
  if (!in_session_ || !HasNext()) return std::nullopt;
  if (for_session_.empty()) return kept_[next_++];
  std::optional<pb::FromDaemon> message(std::move(for_session_.front()));
  for_session_.pop_front();
  return message;
}

}  // namespace oneflow
