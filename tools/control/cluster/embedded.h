// A cluster inside one command: the same scheduler, daemons and workers, as processes of this machine that end with us.
//
//   oneflow run ─┬─► oneflow scheduler          (fork/exec of this very program)
//                ├─► oneflow daemon d0 ─► oneflow worker ...
//                └─► oneflow daemon d1 ─► oneflow worker ...
//
// If we die in any way, also by kill -9, the kernel kills our children, and theirs in turn.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "oneflow_core/status.h"
#include "tools/control/process/child.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {

struct EmbeddedOptions {
  int daemons = 1;
  int devices_per_daemon = 1;
  std::string device = "cpu";  // or "cuda"
  int cores_per_daemon = 1;
  int first = 0;                        // number of its first daemon
  std::string listen = "127.0.0.1:0";   // where its scheduler serves
  std::string scheduler;                // that its daemons serve, of another machine; empty: one of its own
  std::string tls;                      // folder of the cluster's certificate; empty: plain text
  bool insecure = false;                // plain text is meant, also where other machines reach it
  std::string peer_host = "127.0.0.1";  // where workers listen for those of other machines
  double lost_after = 0;                // --lost-after of its processes, in seconds; 0: theirs
  bool parent_only = false;             // none of it listens to signals but ours
  std::string work_dir;  // for logs and the scheduler's store; empty: a temporary one, removed at the end
  std::string executable = kThisProgram;
  std::string page;      // where the scheduler has its page: PORT or HOST:PORT; empty: nowhere
  int replacements = 0;  // how many daemons that die are followed by others of the same name
};

class ReadyPipe;

class EmbeddedCluster {
 public:
  // Returns when all daemons (named d0, d1, ..., or from another number on) are registered. Unavailable or
  // DeadlineExceeded, saying which process did not come up and what it wrote last.
  static absl::StatusOr<std::unique_ptr<EmbeddedCluster>> Start(const EmbeddedOptions& options);
  // Stop().
  ~EmbeddedCluster();

  // Of the scheduler, for Client::Connect.
  const std::string& address() const { return address_; }
  // Where browsers find the page: "http://127.0.0.1:8080/"; empty if there is none.
  const std::string& page() const { return page_; }
  // Where the logs of the scheduler and the daemons are.
  const std::string& work_dir() const { return work_dir_; }
  // REQUIRES: it has a scheduler of its own.
  int scheduler_pid() const { return pid_of(0); }
  int daemon_pid(int index) const { return pid_of(index + first_daemon_); }

  // Ends all processes and waits for them: asked first, killed if they do not listen.
  void Stop();

 private:
  EmbeddedCluster() = default;
  // Starts `oneflow NAME arguments... --ready-fd=3`; the line that it says when it is ready comes by AwaitReady.
  absl::Status Launch(const EmbeddedOptions& options, const std::string& name, std::vector<std::string> arguments,
                      std::vector<std::string> environment = {});
  absl::Status LaunchScheduler(const EmbeddedOptions& options);
  absl::Status LaunchDaemon(const EmbeddedOptions& options, int index);
  absl::StatusOr<std::string> AwaitReady(size_t child);
  // On the thread of a child that has died: starts another in its place, if there may be one more.
  void Replace(size_t child);
  int pid_of(size_t child) const {
    absl::MutexLock lock(&mu_);
    return children_[child]->pid();
  }

  size_t first_daemon_ = 0;  // in children_: 1 if it has a scheduler of its own
  std::unique_ptr<TempDir> temporary_;
  std::string work_dir_;
  std::string address_, page_;
  std::vector<std::string> names_;                 // of children
  std::vector<ChildOptions> options_;              // of children that take the place of others
  std::vector<std::unique_ptr<ReadyPipe>> ready_;  // of children
  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  int replacements_ ABSL_GUARDED_BY(mu_) = 0;                                 // that may still be made
  std::vector<std::unique_ptr<ChildProcess>> children_ ABSL_GUARDED_BY(mu_);  // the scheduler, if any, d0, d1, ...
  std::vector<std::unique_ptr<ChildProcess>> dead_ ABSL_GUARDED_BY(mu_);      // those that were replaced
};

}  // namespace oneflow
