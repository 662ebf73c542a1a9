// The state of a process between its grants and its barriers: how many of its threads still run, and the first error.
//
//   Begin(n) ──► n x ThreadEnded() ──► over
//            └─► Fail()            ──► over, for ever
//
// Any thread may call anything.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "oneflow_core/status.h"

namespace oneflow {

class RunState {
 public:
  // Lets `threads` threads run. Its error is the first failure, or that a peer was lost before: then nothing runs.
  // REQUIRES: nothing runs.
  absl::Status Begin(int threads);
  // One of them has done its part.
  void ThreadEnded();

  // Keeps the error if it is the first; returns whether it is.
  bool Fail(const absl::Status& status);
  // A peer is gone. It may be gone because it has done its part of the last run. Returns whether a run needs it now.
  bool LosePeer(const absl::Status& status);
  // The first error.
  absl::Status failure() const;

  // Waits until all threads have ended or an error ends the run, at most this long; returns whether one of them is so.
  bool WaitFor(std::chrono::milliseconds time);

 private:
  bool IsOver() const { return running_threads_ == 0 || !failure_.ok(); }

  mutable std::mutex mu_;
  std::condition_variable changed_;
  int running_threads_ = 0;  // of the current run
  absl::Status failure_;
  absl::Status lost_peer_;
};

}  // namespace oneflow
