// What the page shows of a job's plan.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// {"classes": [{"ranks", "first", "bytes", "plans": [{"name", "uses": [{"what", "bytes"}]}]}], "text": "..."}: the
// memory of each class of ranks by what it is for, plan by plan, and the plan as `oneflow plan show` prints it.
// REQUIRES: CheckPlanIndices is OK.
absl::StatusOr<nlohmann::json> PlanJson(const pb::PlanSet& plan);

// `oneflow plan explain --html` of jobs, each in a process of its own: compiling one again takes seconds and memory,
// and may fail where the job's files are not at hand. Thread-safe.
class PlanExplainer {
 public:
  explicit PlanExplainer(std::string executable) : executable_(std::move(executable)) {}

  // The page. ResourceExhausted while another is being made; FailedPrecondition with what the process said if there is
  // none.
  absl::StatusOr<std::string> Explain(int64_t job, const pb::JobSpec& spec);

 private:
  absl::StatusOr<std::string> Make(const pb::JobSpec& spec) const;

  const std::string executable_;
  absl::Mutex mu_;                                                         // held while one is made
  std::deque<std::pair<int64_t, std::string>> made_ ABSL_GUARDED_BY(mu_);  // the last ones, by job
};

}  // namespace oneflow
