// What a scheduler counts for Prometheus. It is told beside the scheduler's lock, by the thread that stores what
// happens and by those that hear daemons; a scrape copies numbers and asks nobody.
//
// Jobs that ended are told for some minutes more, so that the last scrape has their end, and at most a thousand are at
// a time. Counters begin at 0 with the scheduler's process.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tools/control/metrics/families.h"
#include "tools/control/scheduler/state.h"
#include "tools/job/step_clock.h"
#include "tools/job/step_sizes.h"

namespace oneflow {

// How many jobs there are, by state.
void WriteJobCounts(const std::array<int64_t, pb::JobState_ARRAYSIZE>& counts, Families& families);
// What daemons offer and jobs have of it.
void WriteNodes(const std::vector<pb::Node>& nodes, Families& families);

// Thread-safe.
class SchedulerMetrics {
 public:
  // A job of a former scheduler that has not ended.
  void OnRestored(const pb::JobSpec& spec, const pb::JobStatus& status);
  // All this is stored, which took so long.
  void OnStored(const Effects& effects, absl::Duration took);
  // A daemon was heard so much later than it should have been.
  void OnHeard(absl::Duration late);

  void Write(Families& families, absl::Time now);

 private:
  struct JobCounts {
    std::string name, unit;
    StepSizes sizes;
    int64_t steps = 0, samples = 0, evaluations = 0;
    std::string step_name;  // of the value by which steps are counted: the first that came
    StepClock clock;
    std::map<std::string, double> values;  // the last of training, by name
    std::unique_ptr<prometheus::Histogram> step_seconds;
    absl::Time forget = absl::InfiniteFuture();
  };

  void Add(const pb::JobSpec& spec, int64_t job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void OnFetched(JobCounts& job, int64_t time_us, const pb::FetchedValue& value);
  static void OnTimed(JobCounts& job, const std::optional<StepClock::Span>& span);
  void Forget(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  prometheus::Histogram lateness_{SecondsBuckets()}, batches_{SecondsBuckets()};
  absl::Mutex mu_;
  std::map<int64_t, JobCounts> jobs_ ABSL_GUARDED_BY(mu_);
  int64_t events_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace oneflow
