// What a daemon tells Prometheus of its workers: the memory that their plans give them, and what they have counted,
// which they say every few seconds of training. A scrape reads what was said last, and asks no worker.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/control.pb.h"
#include "tools/control/metrics/families.h"

namespace oneflow {

// Thread-safe.
class WorkerMetrics {
 public:
  void OnStart(const pb::StartWorker& start);
  void OnStats(int64_t job, int process, const pb::WorkerStats& stats);
  void OnExit(int64_t job, int process);

  void Write(Families& families);

 private:
  struct Worker {
    std::string name;                       // of the job
    std::map<std::string, int64_t> memory;  // of its ranks' devices, by what it is for
    pb::WorkerStats stats;
  };

  absl::Mutex mu_;
  std::map<std::pair<int64_t, int>, Worker> workers_ ABSL_GUARDED_BY(mu_);  // by job and process
  int64_t exits_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace oneflow
