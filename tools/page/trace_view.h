// What the page shows of a job's trace: which steps it has, and the acts of one of them, queue by queue.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "actor/trace/trace.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/status.h"
#include "tools/control/security/paths.h"

namespace oneflow {

// {"steps": [{"run", "plan", "step", "ms"}, ...]}: the last 500.
nlohmann::json StepsJson(const Trace& trace);

// {"ms": of all, "queues": [{"name": "rank 0 (cpu:0) compute", "acts": [[begin_us, us, "actor", "why", waited_us],
// ...]}, ...]} of a step of the plan with this index; at most 20,000 acts, and then "left_out" says how many more.
// NotFound if the trace has none of it.
absl::StatusOr<nlohmann::json> ActsJson(const Trace& trace, int32_t run, int32_t plan, int64_t step);

// The trace that was read last. Thread-safe.
class TraceReader {
 public:
  // What may be read: a job names its trace, and whoever shows it may read more than who submitted the job.
  explicit TraceReader(AllowedPaths allowed) : allowed_(std::move(allowed)) {}

  // Errors of AllowedPaths::Open() and ReadChromeTrace(); ResourceExhausted if it is too large to be looked at here, or
  // another is being read.
  absl::StatusOr<std::shared_ptr<const Trace>> Read(const std::string& path);

 private:
  const AllowedPaths allowed_;
  absl::Mutex mu_;
  std::string key_ ABSL_GUARDED_BY(mu_);  // path, and when it was written
  std::shared_ptr<const Trace> trace_ ABSL_GUARDED_BY(mu_);
};

}  // namespace oneflow
