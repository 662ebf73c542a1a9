// The scheduler as a pure state machine: no threads, no gRPC, no clock of its own.
//
// An input is something that happened, with the time at which it did; the answer is a list of effects. core.cc
// carries them out in order: what is to be stored is committed before anyone is told.
//
//   Submit ─► QUEUED ──every process has devices──► STARTING ──all said hello──► RUNNING ──all finished──► FINISHED
//                │                                      │                           │
//                └───────────── Cancel ─► CANCELLED     └──── a worker or daemon is lost ─► FAILED, or QUEUED again
//
// What it is made of: daemons.h, who is there; waiting_line.h, what a job may take that is not the first in line;
// placement.h, which daemons run a job; log_queries.h and diagnoses.h, what workers are asked. The jobs are here.
//
// Invariants:
//   - A job is placed as a whole or not at all, the processes of a host of its plan on one machine (placement.h):
//     daemons that say the same host share one, and its memory. The line is by priority, then by number. A job that the
//     registered daemons could not hold even if they were idle, or whose user has too many devices, is not in it. Those
//     behind the first that waits are given only what this one could not use, whatever ends next: nothing delays it.
//   - Its devices are taken from placement until each worker's exit is reported (or its daemon is lost), also after the
//     job's end: a dying worker still holds memory.
//   - An attempt after the first goes to the best fallback of its spec that the registered daemons could hold, if they
//     could not hold the job's own layout even if they were idle, and that has been so for as long as the spec says.
//     Which layout it is, is in its status. If the spec says so, a job on a fallback is asked to end, and queued again
//     when it has, once there are devices for a better layout and no job waits.
//   - A job whose spec allows another attempt, and which failed for a reason that one could cure, is stopped: it stays
//     as it was until all its workers have exited or are lost, and is queued again in the place of its number.
//   - A job ends once, with its root cause. A worker that dies makes its peers complain; their complaints (Unavailable,
//     Aborted) wait `grace` for the death itself to be reported.
//   - What carries another attempt than the job's, or comes from a daemon that does not run that worker, is ignored.
//   - Any message of a daemon renews its lease; a daemon that is silent for `lease` while others are heard is lost, and
//     what it ran has failed. Where nobody is heard it may be the scheduler's machine that hears nothing, or all others
//     are suspended: then daemons of other machines have `deaf`. A pause of the scheduler itself, which its late tick
//     tells, counts for no limit at all. A daemon whose connection closed is away, and lost if it is not back within
//     `comeback`; it says then which workers it still has, and is told again what they may not have heard. It kills the
//     others.
//   - A job that has ended and whose workers are gone is looked at by nobody but who asks for it: a tick costs what the
//     others cost. It is there until it is forgotten.
//   - Reports of a daemon are numbered. Each counts once, however often it is said, also to another scheduler on the
//     same store: the number is stored with what the report changed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "tools/control/scheduler/daemons.h"
#include "tools/control/scheduler/diagnoses.h"
#include "tools/control/scheduler/effects.h"
#include "tools/control/scheduler/failure.h"
#include "tools/control/scheduler/limits.h"
#include "tools/control/scheduler/log_queries.h"
#include "tools/control/scheduler/placement.h"
#include "tools/control/scheduler/spec.h"
#include "tools/control/scheduler/waiting_line.h"

namespace oneflow {

// Workers that could not be started.
struct LostStart {
  int64_t job = 0;
  uint64_t attempt = 0;
  std::vector<int> processes;
  std::string why;
};

// A job as the store holds it.
struct StoredJob {
  pb::JobStatus status;
  int64_t next_sequence = 0;
  std::vector<pb::StoredWorker> workers;  // of its last attempt; index = process
  // Of a job that has not ended:
  pb::JobSpec spec;         // without plans
  std::vector<Gang> gangs;  // as AcceptedSpec::gangs
  // Whether this version of the program accepts it. DataLoss: the store is damaged there, also of one that has ended.
  absl::Status valid;
};

class SchedulerState {
 public:
  explicit SchedulerState(SchedulerLimits limits = {}) : limits_(limits), daemons_(limits), logs_(limits.logs) {}

  // Takes up what a former scheduler left, in order of job number: jobs that are not `valid` fail; queued ones stay
  // queued; those that ran go on if the daemons that ran them come back in time. REQUIRES: called first.
  void Restore(std::vector<StoredJob> jobs, std::map<std::string, pb::StoredDaemon> daemons, absl::Time now,
               Effects& effects);

  // Queues a job and returns its number. ResourceExhausted if too many wait already.
  absl::StatusOr<int64_t> Submit(AcceptedSpec accepted, absl::Time now, Effects& effects);
  // NotFound; FailedPrecondition if the job has ended.
  // `gently`: a running job's workers are asked to end, and it is CANCELLED when they have.
  absl::Status Cancel(int64_t job, bool gently, absl::Time now, Effects& effects);
  // These workers of the job's attempt were not started, for the store has lost their plan: the job fails.
  void Abandon(const LostStart& lost, absl::Time now, Effects& effects);
  // A running job's workers are asked to write a checkpoint and to go on. NotFound; FailedPrecondition if the job does
  // not run, or has no folder for checkpoints.
  absl::Status Save(int64_t job, Effects& effects);
  // Queues a job that failed or was cancelled for one more attempt; `accepted` is what it was submitted with. NotFound;
  // FailedPrecondition if the job has not ended so, or a worker of it has not exited; ResourceExhausted as Submit().
  absl::Status Retry(int64_t job, AcceptedSpec accepted, absl::Time now, Effects& effects);
  // No new jobs on this daemon, also when it comes back; or again, with `undo`. NotFound.
  absl::Status Drain(const std::string& daemon, bool undo, absl::Time now, Effects& effects);
  // Asks the daemons that ran the job; the answer is an effect with the caller's `request` number, at once or later.
  // NotFound; FailedPrecondition if the job was never placed by this scheduler; InvalidArgument if it has no such
  // process.
  absl::Status QueryLogs(int64_t request, const pb::LogsRequest& asked, absl::Time now, Effects& effects);

  // Asks the workers of `job` what they wait for; the answer is an effect with the caller's `request` number, which is
  // positive, within `diagnosis`. NotFound; FailedPrecondition if the job does not run.
  absl::Status Diagnose(int64_t request, int64_t job, absl::Time now, Effects& effects);

  // InvalidArgument as ValidateHello(); AlreadyExists if another live daemon has this name. The same process coming
  // back replaces its former session, and goes on with the workers that it says it has; another process with the name
  // of one that is away has lost what that one ran.
  absl::Status DaemonHello(SessionId session, const pb::DaemonHello& hello, absl::Time now, Effects& effects);
  void DaemonMessage(SessionId session, const pb::FromDaemon& message, absl::Time now, Effects& effects);
  // Its connection closed: it is away.
  void SessionEnded(SessionId session, absl::Time now, Effects& effects);

  // Forgets a job that has ended, so that its number says nothing any more and its daemons delete its logs. False, and
  // nothing is done, if it may still change: it has not ended, or a worker of it has not exited. Of the newest job, by
  // whose number the next gets its own, what is known stays.
  bool Forget(int64_t job, Effects& effects);

  // Whatever is due: leases, graces, limits. To be called at least every 100 ms.
  void Tick(absl::Time now, Effects& effects);

  // In order of job number. A queued job's message says what it waits for.
  std::vector<pb::JobStatus> List() const;
  // NotFound.
  absl::StatusOr<pb::JobStatus> Find(int64_t job) const;
  // Its status, and where its workers are. NotFound.
  absl::StatusOr<pb::DescribeReply> Describe(int64_t job) const;
  // By name: those that are there, and those that are away or drained.
  pb::NodesReply Nodes() const;
  // The same without their jobs, for which all would have to be looked at.
  std::vector<pb::Node> NodesWithoutJobs() const { return daemons_.Nodes(); }
  // Of a job that is not there: that it has ended, without events.
  bool HasEnded(int64_t job) const;
  int64_t num_events(int64_t job) const;  // so far
  // How many jobs were looked at so far, one after the other, to see whether something is to be done about them.
  int64_t num_looks() const { return num_looks_; }

 private:
  using Clusters = std::array<std::optional<Cluster>, 2>;  // of cpu and cuda devices, as far as they were asked for
  struct Worker {
    SessionId session = 0;    // of its daemon, if that is there
    pb::StoredWorker stored;  // `released`: it has exited, or its daemon is lost; no peer_address before its hello
    int64_t bytes = 0;        // counted in used_bytes of its daemon
    bool complained = false;
  };
  struct Complaint {
    Suspicion suspicion;
    std::string message;
    absl::Time due;
  };
  struct Job {
    pb::JobStatus status;
    pb::JobSpec spec;  // without plans; cleared at the end
    bool cuda = false;
    bool queued = false;      // counted in num_queued_
    std::vector<Gang> gangs;  // until the end: of its own layout, then of the fallbacks; its status says on which it is
    uint64_t attempt = 0;
    int64_t next_sequence = 0;
    std::vector<Worker> workers;  // kept after the end, for logs
    std::optional<Complaint> complaint;
    std::optional<std::string> stopping;  // why it is to be queued again as soon as all its workers are released
    // Of starting, of exiting after the end, or of taking a fallback while it is queued.
    absl::Time due = absl::InfiniteFuture();
    absl::Time own_layout_until = absl::InfiniteFuture();  // of a queued job: then it may take a fallback
    int phases_done = 0;

    const Gang& gang() const { return gangs[status.fallback()]; }
  };
  void RestoreWorkers(Job& job, std::vector<pb::StoredWorker> stored, absl::Time now);
  static bool Ended(const Job& job) { return job.status.state() >= pb::FINISHED; }
  // All its workers have finished: they have been dismissed, and exit by themselves.
  static bool Dismissed(const Job& job);
  // It has workers that may succeed.
  static bool Runs(const Job& job) {
    return (job.status.state() == pb::STARTING || job.status.state() == pb::RUNNING) && !job.stopping;
  }

  // Those that may still change, in order of job number.
  std::map<int64_t, Job*>& Live() {
    num_looks_ += static_cast<int64_t>(live_.size());
    return live_;
  }
  const std::map<int64_t, Job*>& Live() const { return const_cast<SchedulerState*>(this)->Live(); }
  static bool MayChange(const Job& job);

  // ResourceExhausted if too many jobs wait.
  absl::Status MayQueue() const;
  // What is to be known of it while it is queued, for us and for the store.
  static void Enqueue(Job& job, AcceptedSpec accepted, Effects& effects);
  void AddEvent(Job& job, pb::JobEvent event, Effects& effects);
  void ChangeState(Job& job, pb::JobState state, absl::string_view message, absl::Time now, Effects& effects);
  void EndJob(Job& job, pb::JobState state, absl::string_view message, absl::Time now, Effects& effects);
  // The end, or the begin of another attempt if the job may have one.
  void FailJob(Job& job, bool curable, absl::string_view message, absl::Time now, Effects& effects);
  void QueueAgainIfStopped(Job& job, absl::Time now, Effects& effects);
  void StopWorkers(const Job& job, Effects& effects);
  void TellWorkers(const Job& job, const pb::ToWorker& message, Effects& effects);

  void PlaceQueued(absl::Time now, Effects& effects);
  // The job's own, or a fallback as long as it must take one.
  static void BeginWaiting(Job& job, absl::Time now);
  void ChooseLayout(Job& job, Clusters& clusters, absl::Time now) const;
  static void SetLayout(Job& job, int fallback);
  // The first layout that the registered daemons could hold; the job's own if there is none.
  int BestLayout(const Job& job, Clusters& clusters) const;
  // Asks a job to end that may go on with more devices.
  void Grow(Job& job, absl::Time now, Effects& effects);
  bool MayGrow(const Job& job) const;
  // What is free, and what the job has.
  std::vector<Machine> FreeWithout(const Job& job, Clusters& clusters) const;
  static bool MayFallBack(const Job& job) { return job.attempt > 0 && job.gangs.size() > 1; }
  std::vector<Job*> Line();  // queued jobs, the first first
  bool TryPlace(Job& job, const std::vector<Machine>& free, Clusters& clusters, absl::Time now, Effects& effects);
  // Whether the cluster could hold it if it were idle.
  bool CouldHold(const Job& job, const Gang& gang, Clusters& clusters) const;
  void Take(Job& job, int process, SessionId session);  // of a daemon's devices and memory
  const Cluster& ClusterFor(const Job& job, Clusters& clusters) const;
  Spares SparesBehind(const Job& first) const;
  // What is free for a job behind the first that waits.
  std::vector<Machine> FreeBehind(const Job& first, const Spares& spares, const Job& job, Clusters& clusters) const;
  // Whether its user would have more devices than anyone may.
  bool BeyondQuota(const Job& job) const;
  int DevicesOf(const std::string& user, bool cuda) const;
  void Start(Job& job, const std::vector<SessionId>& sessions, absl::Time now, Effects& effects);
  std::string WaitsFor(const Job& job, Clusters& clusters) const;

  static std::string NameOf(const Job& job, int process);            // of its worker, as DescribeWorker()
  pb::JobStatus StatusOf(const Job& job, Clusters& clusters) const;  // with what it waits for
  pb::WorkerPlace PlaceOf(const Job& job, int process) const;
  void MarkChanged(const Job& job, int process, Effects& effects);
  // Of a daemon that is lost.
  void LoseWorkers(const std::string& daemon, absl::string_view reason, absl::Time now, Effects& effects);
  void ForgetSession(SessionId session, Effects& effects);
  // A daemon that is back has these workers; those to be kept are added to `keep`.
  void Reunite(SessionId session, const pb::DaemonHello& hello, pb::Welcome& keep, absl::Time now, Effects& effects);
  void ReuniteWorker(Job& job, int process, SessionId session, const pb::RunningWorker* running, pb::Welcome& keep,
                     absl::Time now, Effects& effects);
  bool AwaitsDaemon(const Job& job) const;
  void SendStart(const Job& job, int process, Effects& effects);
  pb::ToWorker StartMessage(const Job& job) const;
  static pb::ToWorker StopMessage();
  void TellWorker(const Job& job, int process, const pb::ToWorker& message, Effects& effects);
  Worker* FindWorker(SessionId session, int64_t job, uint64_t attempt, int process);
  void Release(Job& job, int process, Effects& effects);
  void OnReport(SessionId session, const pb::WorkerReport& report, absl::Time now, Effects& effects);
  void OnWorkerHello(Job& job, int process, const pb::WorkerHello& hello, absl::Time now, Effects& effects);
  void OnFetched(Job& job, const pb::WorkerFetched& fetched, Effects& effects);
  void OnPhaseDone(Job& job, int process, const pb::WorkerPhaseDone& done, absl::Time now, Effects& effects);
  void OnFinished(Job& job, int process, absl::Time now, Effects& effects);
  void OnFailed(Job& job, int process, const pb::WorkerFailed& failed, absl::Time now, Effects& effects);
  void OnExit(SessionId session, const pb::WorkerExit& exited, absl::Time now, Effects& effects);
  void AskWorkers(int64_t request, const Job& job, absl::Time now, std::optional<pb::ProcessWaits> stall,
                  Effects& effects);
  void OnStall(Job& job, const pb::ProcessWaits& waits, absl::Time now, Effects& effects);
  void EndStall(Job& job, const Diagnoses::Finished& finished, absl::Time now, Effects& effects);
  void TickDiagnoses(absl::Time now, Effects& effects);
  // It has not run for so long: limits that it waits for end as much later.
  void Oversleep(absl::Duration pause, absl::Time now);
  void TickJob(Job& job, absl::Time now, Effects& effects);
  void TickLogs(absl::Time now, Effects& effects);

  SchedulerLimits limits_;
  int64_t next_job_ = 1;
  int num_queued_ = 0;
  std::map<int64_t, Job> jobs_;
  std::map<int64_t, Job*> live_;  // those that may change, and some that a tick has not yet seen to be past it
  int64_t num_looks_ = 0;
  Daemons daemons_;
  LogQueries logs_;
  Diagnoses diagnoses_;
  int64_t last_stall_ = 0;  // their requests are negative
  absl::Time last_tick_ = absl::InfinitePast();
};

}  // namespace oneflow
