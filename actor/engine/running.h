// Runs of a loaded job: grants, the barrier of all processes, and the end of everything after the first error.
//
//   Run()  ──► Begin ── variables brought up to date ── grant every thread ── all ended ── Barrier()
//                                                        │
//   a thread, a peer, a device, Abort() ──► Fail(): stop the threads, tell the peers, abort collectives
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "actor/actor_thread.h"
#include "actor/engine/loaded_job.h"
#include "actor/engine/run_state.h"
#include "actor/engine/telling.h"
#include "actor/transport/other_hosts.h"
#include "actor/transport/peer_network.h"

namespace oneflow {

// Run() and Together() are called on one thread at a time, everything else on any.
class Running final : public ActorThread::Listener, public PeerNetwork::Listener, public OtherHosts::Listener {
 public:
  // Everything is borrowed, and outlives the job's threads.
  Running(const EngineOptions& options, LoadedJob& job, Telling& telling)
      : options_(options), job_(job), telling_(telling) {}

  // Errors as Engine::Run.
  absl::Status Run(absl::string_view plan, int64_t first_step, int64_t steps);
  // Lets the plan run beside others, if it is one that may, and returns; otherwise as Run. REQUIRES: the last such run
  // has been waited for.
  absl::Status RunBeside(absl::string_view plan, int64_t first_step, int64_t steps);
  // Returns when that has ended here, and with it everything that others read of it here; or with the first error.
  absl::Status WaitBeside();
  // Actions of all processes outside of runs, called `what`: an error here is an error everywhere. Refused after the
  // first error.
  absl::Status Together(const char* what, const std::function<absl::Status()>& action);
  // Lets the job's threads begin, of which `reporting` say when they have done their first work; returns when these
  // have.
  absl::Status Start(int reporting);

  // Returns when all processes have called it as often, or with the first error.
  absl::Status Barrier();
  // Keeps the first error and stops everything.
  void Fail(const absl::Status& status, bool tell_peers);
  // The first error.
  absl::Status failure() const { return state_.failure(); }
  // Inside Run(), times the ranks of this process.
  double wall_seconds() const;

  // Who listens to threads of plans beside others.
  ActorThread::Listener& beside() { return beside_; }

  void OnThreadDone(int rank) override;
  void OnThreadFailed(int rank, absl::Status status) override;
  void OnMessages(int process, absl::Span<const Message> messages) override;
  void OnPeerError(int process, absl::Status status) override;
  void OnPeerLost(int process, absl::Status status) override;
  absl::Status Deliver(const Message& message) override;

 private:
  // The number of the plan. InvalidArgument if there is none of this name, or it cannot run these steps.
  absl::StatusOr<int> PlanOf(absl::string_view plan, int64_t first_step, int64_t steps) const;
  absl::Status RunHere(int plan, int64_t first_step, int64_t steps);
  std::vector<ActorThread*> ThreadsOf(int plan) const;
  // Returns when all have ended, or with the first error.
  absl::Status WaitForThreads();

  class Beside final : public ActorThread::Listener {
   public:
    explicit Beside(Running& running) : running_(running) {}
    void OnThreadDone(int) override { state.ThreadEnded(); }
    void OnThreadFailed(int rank, absl::Status status) override { running_.OnThreadFailed(rank, std::move(status)); }

    RunState state;

   private:
    Running& running_;
  };

  const EngineOptions& options_;
  LoadedJob& job_;
  Telling& telling_;
  RunState state_;
  Beside beside_{*this};
  mutable std::mutex mu_;
  double wall_seconds_ = 0;  // guarded by mu_
};

}  // namespace oneflow
