#include "tools/control/scheduler/job_board.h"

namespace oneflow {

void JobBoard::Set(const pb::JobStatus& status) {
  absl::MutexLock lock(&mu_);
  const auto [found, is_new] = jobs_.try_emplace(status.job());
  if (!is_new) --counts_[found->second.state()];
  ++counts_[status.state()];
  found->second = status;
  ++version_;
}

void JobBoard::Remove(int64_t job) {
  absl::MutexLock lock(&mu_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  --counts_[found->second.state()];
  jobs_.erase(found);
  ++version_;
}

std::vector<pb::JobStatus> JobBoard::Newest(int64_t before, int limit) const {
  std::vector<pb::JobStatus> newest;
  absl::MutexLock lock(&mu_);
  auto at = before > 0 ? jobs_.lower_bound(before) : jobs_.end();
  while (at != jobs_.begin() && static_cast<int>(newest.size()) < limit) newest.push_back((--at)->second);
  return newest;
}

std::array<int64_t, pb::JobState_ARRAYSIZE> JobBoard::counts() const {
  absl::MutexLock lock(&mu_);
  return counts_;
}

int64_t JobBoard::version() const {
  absl::MutexLock lock(&mu_);
  return version_;
}

}  // namespace oneflow
