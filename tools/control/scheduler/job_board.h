// What became of all jobs that are kept, for those who only look: kept beside the scheduler's state, so that whoever
// looks holds up no decision, however many jobs there were.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/control.pb.h"

namespace oneflow {

// Thread-safe. What a queued job waits for is not here: it depends on the others.
class JobBoard {
 public:
  void Set(const pb::JobStatus& status);
  // Without effect on a job that is not here.
  void Remove(int64_t job);

  // At most `limit`, the newest first, of those before job `before`; 0: of all.
  std::vector<pb::JobStatus> Newest(int64_t before, int limit) const;
  // By state.
  std::array<int64_t, pb::JobState_ARRAYSIZE> counts() const;
  // Grows with every change.
  int64_t version() const;

 private:
  mutable absl::Mutex mu_;
  std::map<int64_t, pb::JobStatus> jobs_ ABSL_GUARDED_BY(mu_);
  std::array<int64_t, pb::JobState_ARRAYSIZE> counts_ ABSL_GUARDED_BY(mu_) = {};
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace oneflow
