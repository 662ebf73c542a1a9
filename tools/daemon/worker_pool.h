// The worker processes of one daemon: started, watched, stopped; their logs kept.
//
//   Start ─► forked ─► attached (it has opened its session) ─► detached ─► exited ─► reported
//
// A worker's exit is reported after everything it said: its last words, which are often the cause, must not come behind
// its death. Thread-safe; knows no gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/process/child.h"
#include "tools/rpc/outbox.h"

namespace oneflow {

struct WorkerPoolOptions {
  std::string executable = kThisProgram;
  std::string work_dir;                 // of logs; must exist
  std::string peer_host = "127.0.0.1";  // where workers listen for each other
  int cuda_devices = 0;
  absl::Duration stop_grace = absl::Seconds(1);  // from SIGTERM to SIGKILL
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
  void StopJob(int64_t job);
  // Kills all workers and waits for their end.
  void StopAll();

  // What `worker` is to be told is pushed to its messages; dropped if it is gone.
  void Tell(int64_t job, int process, pb::ToWorker message);
  // The end of what it wrote, also after its end.
  std::string Log(int64_t job, int process) const;

  // A process says it is this worker: its messages, with its assignment as the first. NotFound if we started no such
  // worker, PermissionDenied if we did but as another process.
  absl::StatusOr<std::shared_ptr<Messages>> Attach(const pb::WorkerHello& hello);
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
    bool over = false;  // exited and reported
  };

  std::string LogPath(Key key) const;
  static absl::Status Assign(const pb::JobSpec& spec, int process, pb::WorkerAssignment& assignment);
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
};

}  // namespace oneflow
