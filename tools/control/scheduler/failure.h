// The words in which a job learns why it failed, and which of two reasons is the cause of the other.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/control.pb.h"

namespace oneflow {

// "SIGKILL"; "signal 99" if the system has no name for it.
std::string SignalName(int signal);

// "worker 1 (pid 123) on daemon 'd1'"; without the pid if it is 0: the worker was never seen.
std::string DescribeWorker(int process, int pid, absl::string_view daemon);

// How a worker ended that had not finished: "worker 1 (pid 123) on daemon 'd1' was killed by signal 9 (SIGKILL)". What
// it wrote last is added where it may explain the end: not for signals that are sent from outside.
std::string DescribeExit(const pb::WorkerExit& exited, absl::string_view daemon);

// How surely a worker's report is the root of a failure. When a worker dies its peers may say so before its own end is
// known.
enum class Suspicion {
  kEcho,     // Aborted: another failed first
  kSymptom,  // Unavailable: something it needed was gone
  kCause,    // anything else happened in the worker itself
};
Suspicion SuspicionOf(absl::StatusCode code);

// Whether another attempt may succeed where a worker failed with this code: not if the job itself is wrong, or asks for
// what is not there.
bool IsCurable(absl::StatusCode code);

}  // namespace oneflow
