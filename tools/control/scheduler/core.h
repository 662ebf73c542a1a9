// The scheduler without its network: the state machine behind a lock, the writer that stores what it decides, and those
// who wait for either.
//
//   callers, daemons, ticker ──► lock { state ──► effects } ──► EffectWriter ──► sessions, watchers, answers
//
// The lock is held for decisions alone, so that a lease is renewed in microseconds whatever the disk does. Who watches
// sleeps until the job has more events; nothing polls the store. If the store fails the core stops, rather than promise
// what it might forget. service.cc puts gRPC around it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/metrics/families.h"
#include "tools/control/rpc/outbox.h"
#include "tools/control/scheduler/effect_writer.h"
#include "tools/control/scheduler/event_readers.h"
#include "tools/control/scheduler/job_board.h"
#include "tools/control/scheduler/metrics.h"
#include "tools/control/scheduler/page_source.h"
#include "tools/control/scheduler/state.h"
#include "tools/control/scheduler/steady_clock.h"
#include "tools/control/scheduler/store.h"

namespace oneflow {

inline constexpr int kMostWatchers = 1000;

// Thread-safe.
class SchedulerCore final : public PageSource, private EffectWriter::Owner {
 public:
  SchedulerCore(std::unique_ptr<Store> store, const SchedulerLimits& limits, const EndedJobsRule& keep);
  ~SchedulerCore() override { End(); }

  // Takes up the jobs of a former scheduler. Errors of the store. Before anything else.
  absl::Status Restore();
  // From now on time passes, and effects are stored.
  void Start();
  // Calls end: those that wait return, sessions are closed.
  void Stop();
  // Returns when all is stored. REQUIRES: Stop(), and no call runs.
  void End();
  // Returns when Stop() is called (OK), or the store has failed (its error).
  absl::Status Wait();

  // --- for callers ---
  //
  // `may` says whether the caller may change the job; it is called under the lock. NotFound if there is no such job.
  // These return when the change is stored. Errors of SchedulerState, or of the store.
  using May = absl::FunctionRef<absl::Status(const pb::JobStatus& job)>;
  absl::StatusOr<int64_t> Submit(AcceptedSpec accepted);
  absl::Status Cancel(int64_t job, bool gently, May may);
  absl::Status Retry(int64_t job, May may);
  absl::Status Drain(const std::string& node, bool undo);
  // Returns when workers have been told.
  absl::Status Save(int64_t job, May may);

  std::vector<pb::JobStatus> List();
  pb::NodesReply NodesWithJobs();
  // These ask daemons, and return their answers within the state's own limit. Unavailable if the scheduler stops.
  absl::StatusOr<pb::LogsReply> Logs(const pb::LogsRequest& request);
  absl::StatusOr<std::string> Diagnose(int64_t job);

  // --- for watchers ---

  // A call that lasts as long as its job: each has a thread.
  class Watcher {
   public:
    Watcher(SchedulerCore& core, int64_t job, int64_t next);
    ~Watcher();
    Watcher(const Watcher&) = delete;
    bool too_many() const { return number_ > kMostWatchers; }
    // The events that have not been read, waiting until there are some; none if the job has ended and all were read.
    // NotFound, Unavailable if the scheduler stops, Cancelled soon after `is_gone` says that nobody reads them.
    absl::StatusOr<std::vector<pb::JobEvent>> Await(absl::FunctionRef<bool()> is_gone);
    // These have been read.
    void OnRead(const std::vector<pb::JobEvent>& events);

   private:
    SchedulerCore& core_;
    const int number_;
    EventReaders::Handle reader_;
  };

  // --- for daemons ---

  // A connected daemon. Lives on the stack of its call.
  struct Session {
    std::function<void()> cancel;  // ends the call, soon; any thread
    Outbox<pb::ToDaemon> outbox;
    absl::Status closed_because;  // the core's: why it ended the session, if it did
  };
  // Errors of SchedulerState::DaemonHello; Unavailable if the scheduler stops.
  absl::StatusOr<SessionId> Register(const pb::DaemonHello& hello, Session& session);
  // Returns why it has ended.
  absl::Status Unregister(SessionId id, Session& session);
  void OnMessage(SessionId id, const pb::FromDaemon& message);
  // A daemon was heard, after `before`. Now.
  absl::Time OnHeard(absl::Time before);
  absl::Time Now() const { return clock_.Now(); }

  // --- for those who look ---

  std::vector<pb::JobStatus> Jobs(int64_t before, int limit) override { return board_.Newest(before, limit); }
  std::array<int64_t, pb::JobState_ARRAYSIZE> JobCounts() override { return board_.counts(); }
  int64_t JobsVersion() override { return board_.version(); }
  absl::StatusOr<pb::DescribeReply> Describe(int64_t job, bool with_plan) override;
  absl::StatusOr<std::vector<pb::JobEvent>> Events(int64_t job, int64_t from, int limit) override;
  int64_t NumEvents(int64_t job) override;
  std::vector<pb::Node> Nodes() override;
  // Of the state only what the cluster's size bounds.
  void WriteMetrics(Families& families);

 private:
  // The answers of daemons to questions, by number, until somebody takes them.
  template <typename T>
  struct Answers {
    int64_t last = 0;
    std::map<int64_t, T> come;
  };

  void OnStored(const Effects& effects, absl::Duration took) override;
  void Tell(Effects& effects, const std::vector<LostStart>& lost) override;
  void OnStoreFailed(const absl::Status& status) override;
  int64_t FirstUnread(int64_t job) override;
  Forgetting Forget(int64_t job) override;

  // Decides under the lock; returns when that is stored.
  absl::Status Decide(absl::FunctionRef<absl::Status(Effects& effects)> decide);
  absl::Status MayChange(int64_t job, May may) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Asks a question that `ask` numbers; returns its answer.
  template <typename T>
  absl::StatusOr<T> Ask(Answers<T> SchedulerCore::*answers,
                        absl::FunctionRef<absl::Status(int64_t number, Effects& effects)> ask);
  void TellSessions(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The values of its last choice of codes; none if there was no choice among its last events.
  absl::StatusOr<std::vector<pb::FetchedValue>> LastCodes(int64_t job);
  // Waits until the job has events from `next` on; how many it has.
  absl::StatusOr<int64_t> AwaitEvents(int64_t job, int64_t next, absl::FunctionRef<bool()> is_gone);
  // The job has ended, and its last event is stored.
  bool EndIsTold(int64_t job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t NumStored(int64_t job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TickLoop();

  const SteadyClock clock_;
  const absl::Duration heartbeat_;  // how often daemons are told to be heard
  // For those who only look: told by the writer's thread, never under mu_.
  JobBoard board_;
  SchedulerMetrics metrics_;
  std::atomic<int> num_watchers_ = 0;

  absl::Mutex mu_;
  SchedulerState state_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, int64_t> num_stored_ ABSL_GUARDED_BY(mu_);  // events, by job
  std::map<SessionId, Session*> sessions_ ABSL_GUARDED_BY(mu_);
  SessionId last_session_ ABSL_GUARDED_BY(mu_) = 0;
  Answers<pb::LogsReply> logs_ ABSL_GUARDED_BY(mu_);
  Answers<std::string> diagnoses_ ABSL_GUARDED_BY(mu_);
  EventReaders readers_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  EffectWriter writer_;  // its locks are taken under mu_
  std::thread ticker_;
};

}  // namespace oneflow
