// A job from its submission to its end, as the commands that train show it.
#pragma once

#include <signal.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "oneflow_core/status.h"
#include "proto/plan.pb.h"
#include "tools/control/client.h"
#include "tools/control/cluster/embedded.h"
#include "tools/control/process/stop_signals.h"
#include "tools/job/job.h"

namespace oneflow {

// Turns Ctrl-C, and all else that asks for the end (tools/control/process/stop_signals.h), into the cancellation of the
// job, whenever it comes: before the job exists it is remembered. What asks to save makes a running job write a
// checkpoint.
class Interrupt {
 public:
  Interrupt();

  bool requested() const { return requested_; }
  // From now on an interrupt cancels this job, or asks it to save what it has and end. `client` must outlive the next
  // Forget().
  void Cancels(Client* client, int64_t job, bool gently);
  void Forget();
  // As a signal that asks for the end. Any thread.
  void Stop() { OnSignal(SIGTERM); }

 private:
  void OnSignal(int signal);
  void Save();
  void Cancel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  std::atomic<bool> requested_ = false;
  Client* client_ ABSL_GUARDED_BY(mu_) = nullptr;
  int64_t job_ ABSL_GUARDED_BY(mu_) = 0;
  bool gently_ ABSL_GUARDED_BY(mu_) = false;
  StopSignals signals_;  // last: it calls us as soon as it exists
};

// The cluster that the job needs, on this machine.
EmbeddedOptions ClusterOf(const pb::JobSpec& spec);

struct CompiledJob {
  Job job;
  pb::PlanSet plan;
};

struct Following {
  SchedulerAddress scheduler;
  absl::Duration patience = absl::ZeroDuration();  // for a scheduler that is being restarted
  std::string metrics;                             // file of one JSON object per training step (metrics_file.h)
};

// How long commands that follow a job wait for a scheduler that is being restarted.
inline constexpr absl::Duration kSchedulerPatience = absl::Minutes(1);
// OK for a job that finished; Cancelled; Aborted with why it failed.
absl::Status FinalStatus(const pb::StateChange& last);

// Submits the job and shows how it goes on until its end. OK if it finished; Cancelled; Aborted with why it failed;
// InvalidArgument, before anything is submitted, if the metrics have no place of their own; errors of MetricsFile and
// Client.
absl::Status FollowJob(const CompiledJob& compiled, const Following& following, Interrupt& interrupt);

}  // namespace oneflow
