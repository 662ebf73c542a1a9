// The worker processes of one daemon: started, watched, stopped; their logs kept.
//
//   Start ─► forked ─► attached (it has opened its session) ─► detached ─► exited ─► reported
//
// A worker that is attached says something at least every heartbeat. One that falls silent while the daemon runs is
// frozen: it is killed, so that its job ends and its peers wait no longer. After a pause of the daemon itself, as when
// all processes are suspended, the time begins anew.
//
// A worker's exit is reported after everything it said: its last words, which are often the cause, must not come behind
// its death. Thread-safe; knows no gRPC.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "actor/transport/tls.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/process/child.h"
#include "tools/control/process/log_tail.h"
#include "tools/control/rpc/outbox.h"
#include "tools/control/security/paths.h"

namespace oneflow {

struct WorkerPoolOptions {
  std::string executable = kThisProgram;
  std::string work_dir;                 // of logs; must exist
  std::string peer_host = "127.0.0.1";  // where workers listen for each other
  TlsIdentity identity;                 // that they show to one another and to us; empty: none
  AllowedPaths allowed;                 // that their jobs may use
  bool parent_only = false;             // workers listen to no signals but ours
  int cuda_devices = 0;
  absl::Duration stop_grace = absl::Seconds(1);  // from SIGTERM to SIGKILL
  int64_t log_bytes = int64_t{64} << 20;         // of a worker: beyond it its middle is cut out (log_tail.h)
  absl::Duration silence = absl::Seconds(2);  // of a worker that is attached, until it is taken for frozen and killed
};

class WorkerPool {
 public:
  using Messages = Outbox<pb::ToWorker>;

  // `report` takes reports and exits for the scheduler; called on any thread, must not call back.
  WorkerPool(WorkerPoolOptions options, std::function<void(pb::FromDaemon)> report);
  ~WorkerPool();  // StopAll()

  // Where workers report. REQUIRES: called before the first Start().
  void set_daemon_address(std::string address) { daemon_address_ = std::move(address); }

  // What goes wrong is reported as that worker's failure and exit.
  void Start(const pb::StartWorker& start);
  // Returns at once; the exits are reported.
  void StopJob(int64_t job, uint64_t attempt);
  // Kills all workers and waits for their end; or all but those of these jobs' attempts.
  void StopAll() { StopOthers({}); }
  void StopOthers(const std::set<std::pair<int64_t, uint64_t>>& kept);

  // What `worker` is to be told is pushed to its messages; false, and dropped, if it is gone.
  bool Tell(int64_t job, uint64_t attempt, int process, pb::ToWorker message);
  // The end of what it wrote, also after its end.
  LogPart Log(int64_t job, int process, std::optional<int64_t> offset) const;
  // Deletes what its workers wrote. Any thread.
  void DeleteLogs(int64_t job) const;

  // How long this process has not run since the pool was made, as far as its watch has seen. Any thread.
  absl::Duration slept() const;

  // A process says it is this worker: its messages, with its assignment as the first. NotFound if we started no such
  // worker, PermissionDenied if we did but as another process.
  absl::StatusOr<std::shared_ptr<Messages>> Attach(const pb::WorkerHello& hello);
  // It has said something.
  void Heard(int64_t job, int process);
  // Its session has ended, and everything it said is reported.
  void Detach(int64_t job, int process);

 private:
  using Key = std::pair<int64_t, int>;  // job, process
  struct Worker {
    uint64_t attempt = 0;
    std::unique_ptr<ChildProcess> child;
    std::shared_ptr<Messages> messages = std::make_shared<Messages>();
    std::vector<int> cuda_devices;
    bool attached = false;
    std::chrono::steady_clock::time_point heard;  // while it is attached: when last
    bool over = false;                            // exited
  };

  void WatchLoop();
  // Of workers that run.
  void ShortenLogs();
  // Kills those that have been silent for too long, once each.
  void KillFrozen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReportFailure(Key key, uint64_t attempt, absl::StatusCode code, const std::string& message);
  std::string LogPath(Key key) const;
  absl::Status Assign(const pb::JobSpec& spec, int process, pb::WorkerAssignment& assignment) const;
  absl::Status Launch(const pb::StartWorker& start, Key key, Worker& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TakeCudaDevices(int count, Worker& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnExit(Key key, uint64_t attempt, ChildExit exit);
  void ReportExit(Key key, uint64_t attempt, int pid, ChildExit exit);

  const WorkerPoolOptions options_;
  const std::function<void(pb::FromDaemon)> report_;
  std::string daemon_address_;
  mutable absl::Mutex mu_;
  std::map<Key, std::shared_ptr<Worker>> workers_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration slept_ ABSL_GUARDED_BY(mu_);
  std::thread watch_;
};

}  // namespace oneflow
