// A process that we started and that cannot outlive us.
//
// Each child has a thread of ours that forks it, waits for it and reports its end. The thread is more than convenience:
// the kernel kills a child (PR_SET_PDEATHSIG) when the *thread* that forked it dies, so that thread must live as long
// as the child. Thus kill -9 of a parent ends its children, and theirs.
//
// A child leads a process group of its own: Ctrl-C in a terminal reaches only the first process, which stops the others
// in order, and whatever the child started dies with it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Executes the very program that is running, also if its file was replaced meanwhile.
inline constexpr char kThisProgram[] = "/proc/self/exe";

struct ChildOptions {
  std::string executable = kThisProgram;
  std::vector<std::string> arguments;    // argv, with the name that `ps` shows first
  std::vector<std::string> environment;  // "NAME=value", added to ours
  std::string log_path;                  // stdout and stderr are appended there; empty: as ours
  int passed_fd = -1;                    // becomes descriptor 3 of the child; all other descriptors are closed
};

struct ChildExit {
  int exit_code = 0;  // if signal is 0
  int signal = 0;     // that killed it
};

class ChildProcess {
 public:
  // Returns when the child executes its program, or has failed to: NotFound, PermissionDenied, Unavailable... naming
  // it. `on_exit` is called once, on the child's thread, when the child is dead and reaped.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(ChildOptions options,
                                                             std::function<void(ChildExit)> on_exit = nullptr);
  // Kills it if it lives, and waits until on_exit has returned. Not to be called from on_exit.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }

  // SIGTERM now, SIGKILL after `grace`; returns at once. Again: the shorter grace counts. Does nothing to a dead child.
  void Stop(absl::Duration grace);
  // True if on_exit has returned before `timeout`.
  bool WaitForExit(absl::Duration timeout);

 private:
  ChildProcess() = default;
  absl::Status AwaitStart();
  void Live(const ChildOptions& options, const std::function<void(ChildExit)>& on_exit);
  absl::Status Fork(const ChildOptions& options);
  ChildExit Await();

  int pid_ = 0;          // written before Start() returns
  int pidfd_ = -1;       // readable when the child is dead
  int stop_event_ = -1;  // eventfd: Stop() was called
  absl::Mutex mu_;
  absl::Time kill_at_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status start_status_ ABSL_GUARDED_BY(mu_);
  bool exited_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace oneflow
