// A scheduler's user: submits, watches, cancels, lists and reads logs.
//
// Errors say which scheduler: "scheduler '127.0.0.1:7000': cannot connect within 5s". Every call but Watch() ends
// within a deadline; Watch() ends with its job, or when the scheduler is lost and does not come back. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "actor/transport/tls.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"

namespace oneflow {

// Where a scheduler is, and what it is shown of us.
struct SchedulerAddress {
  SchedulerAddress(const char* address) : address(address) {}
  SchedulerAddress(std::string address = "127.0.0.1:7000", TlsIdentity identity = {}, std::string token = {})
      : address(std::move(address)), identity(std::move(identity)), token(std::move(token)) {}
  std::string address;   // host:port
  TlsIdentity identity;  // empty: plain text
  std::string token;     // goes over TLS or within this machine only; empty: none
};

class Client {
 public:
  // Unavailable if nobody answers at the address within `timeout`. `patience`: how long Watch() waits for a
  // scheduler that is lost; another one on the same store goes on with its jobs.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const SchedulerAddress& scheduler,
                                                         absl::Duration timeout = absl::Seconds(5),
                                                         absl::Duration patience = absl::Seconds(0));
  virtual ~Client() = default;

  // The job's number. It is our token's, or that of the user whose process this is. InvalidArgument if the spec is
  // malformed.
  virtual absl::StatusOr<int64_t> Submit(const pb::JobSpec& spec, int priority = 0) = 0;
  // Calls `on_event` for every event from `from_sequence` on, in order, on the calling thread, until the job has ended;
  // the last is its final StateChange. Stops early, OK, when on_event returns false. NotFound if there is no such job.
  virtual absl::Status Watch(int64_t job, int64_t from_sequence,
                             const std::function<bool(const pb::JobEvent&)>& on_event) = 0;
  // At once, or after the steps that its workers are in and one more checkpoint (CancelRequest.gently). NotFound;
  // FailedPrecondition if the job has ended.
  virtual absl::Status Cancel(int64_t job, bool gently = false) = 0;
  // A running job writes a checkpoint, and goes on. NotFound; FailedPrecondition if it does not run, or has no folder
  // for checkpoints.
  virtual absl::Status Save(int64_t job) = 0;
  virtual absl::StatusOr<std::vector<pb::JobStatus>> List() = 0;
  // What the workers of a running job wait for, as text. NotFound; FailedPrecondition if it does not run.
  virtual absl::StatusOr<std::string> Diagnose(int64_t job) = 0;
  // The end of what each worker of the job wrote, by process. NotFound; FailedPrecondition if it never had workers.
  // `process`: of this one alone, unless it is negative.
  virtual absl::StatusOr<std::vector<pb::WorkerLog>> Logs(int64_t job, int process = -1) = 0;
  // What this worker wrote from a byte on, as far as an answer holds it.
  virtual absl::StatusOr<pb::WorkerLog> LogFrom(int64_t job, int process, int64_t offset) = 0;
  // All that is known of a job; its plan only if that is asked for. NotFound.
  virtual absl::StatusOr<pb::DescribeReply> Describe(int64_t job, bool with_plan = false) = 0;
  virtual absl::StatusOr<std::vector<pb::Node>> Nodes() = 0;
  // No new jobs on this daemon; or again. NotFound.
  virtual absl::Status Drain(const std::string& node, bool undo) = 0;
  // Queues a job that failed or was cancelled for one more attempt. NotFound; FailedPrecondition otherwise.
  virtual absl::Status Retry(int64_t job) = 0;
};

}  // namespace oneflow
