// What daemons and workers tell a scheduler (state.h), and what it asks them.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "tools/control/scheduler/state.h"

namespace oneflow {
namespace {

// Of a job, in one answer; each has some 64 KB.
constexpr int kMostLogs = 256;

pb::ToWorker DismissalMessage() {
  pb::ToWorker message;
  message.mutable_dismissal();
  return message;
}

}  // namespace

pb::ToWorker SchedulerState::StopMessage() {
  pb::ToWorker message;
  message.mutable_stop();
  return message;
}

absl::Status SchedulerState::DaemonHello(SessionId session, const pb::DaemonHello& hello, absl::Time now,
                                         Effects& effects) {
  OF_RETURN_IF_ERROR(ValidateHello(hello));
  OF_ASSIGN_OR_RETURN(const std::optional<SessionId> former, daemons_.FormerSession(hello));
  if (former) {
    effects.closed_sessions.emplace_back(*former, absl::AbortedError("the daemon opened another session"));
    ForgetSession(*former, effects);
  }
  if (const std::string why = daemons_.WhyLost(hello); !why.empty()) LoseWorkers(hello.name(), why, now, effects);
  daemons_.Enter(session, hello, now, effects);
  const size_t welcome = effects.messages.size();  // before what it is told of workers
  effects.messages.emplace_back(session, pb::ToDaemon());
  pb::Welcome keep;
  keep.set_heartbeat_ms(absl::ToInt64Milliseconds(limits_.heartbeat));
  Reunite(session, hello, keep, now, effects);
  *effects.messages[welcome].second.mutable_welcome() = std::move(keep);
  PlaceQueued(now, effects);
  return absl::OkStatus();
}

void SchedulerState::Reunite(SessionId session, const pb::DaemonHello& hello, pb::Welcome& keep, absl::Time now,
                             Effects& effects) {
  std::map<std::pair<int64_t, int>, const pb::RunningWorker*> running;
  for (const pb::RunningWorker& worker : hello.workers()) running[{worker.job(), worker.process()}] = &worker;
  for (auto& [number, job] : jobs_) {
    for (size_t process = 0; process < job.workers.size(); ++process) {
      Worker& worker = job.workers[process];
      if (worker.stored.daemon() != hello.name()) continue;
      worker.session = session;  // of its log, too
      if (worker.stored.released()) continue;
      const auto found = running.find({number, process});
      const bool same = found != running.end() && found->second->attempt() == job.attempt;
      ReuniteWorker(job, process, session, same ? found->second : nullptr, keep, now, effects);
    }
  }
}

// `running`: what its daemon has of it; null: nothing.
void SchedulerState::ReuniteWorker(Job& job, int process, SessionId session, const pb::RunningWorker* running,
                                   pb::Welcome& keep, absl::Time now, Effects& effects) {
  Take(job, process, session);
  const pb::StoredWorker& stored = job.workers[process].stored;
  if (running == nullptr) {
    // What should have started it was lost with the connection.
    if (Runs(job) && stored.peer_address().empty()) return SendStart(job, process, effects);
    Release(job, process, effects);
    QueueAgainIfStopped(job, now, effects);
    if (!Runs(job)) return;
    return FailJob(
        job, true,
        absl::StrCat("daemon '", stored.daemon(), "' came back without worker ", process, " of job ", job.status.job()),
        now, effects);
  }
  *keep.add_keep() = *running;
  if (job.stopping || (Ended(job) && !Dismissed(job))) return StopWorkers(job, effects);
  if (Ended(job)) {
    if (!running->dismissed()) TellWorker(job, process, DismissalMessage(), effects);
    return;
  }
  if (job.status.state() == pb::RUNNING && !running->started()) {
    TellWorker(job, process, StartMessage(job), effects);
  }
  if (job.status.asked_to_stop() || job.status.growing()) TellWorker(job, process, StopMessage(), effects);
}

void SchedulerState::DaemonMessage(SessionId session, const pb::FromDaemon& message, absl::Time now, Effects& effects) {
  if (!daemons_.Has(session)) return;  // lost already; its stream is being closed
  daemons_.Hear(session, now);
  if (!daemons_.Counts(session, message.number(), effects)) return;  // said before
  switch (message.kind_case()) {
    case pb::FromDaemon::kReport:
      return OnReport(session, message.report(), now, effects);
    case pb::FromDaemon::kExited:
      return OnExit(session, message.exited(), now, effects);
    case pb::FromDaemon::kLogs:
      logs_.Answer(session, message.logs());
      return TickLogs(absl::InfinitePast(), effects);
    case pb::FromDaemon::kDiagnosis:
      diagnoses_.Add(message.diagnosis().request(), message.diagnosis().job(), message.diagnosis().waits());
      return TickDiagnoses(now, effects);
    case pb::FromDaemon::kHello:
    case pb::FromDaemon::kHeartbeat:
    case pb::FromDaemon::KIND_NOT_SET:
      return;
  }
}

void SchedulerState::SessionEnded(SessionId session, absl::Time now, Effects& effects) {
  if (!daemons_.Has(session)) return;
  daemons_.SetAway(session, now);
  ForgetSession(session, effects);
}

void SchedulerState::ForgetSession(SessionId session, Effects& effects) {
  daemons_.Leave(session);
  logs_.Lose(session);
  TickLogs(absl::InfinitePast(), effects);
}

void SchedulerState::LoseWorkers(const std::string& daemon, absl::string_view reason, absl::Time now,
                                 Effects& effects) {
  daemons_.AwaitNoLonger(daemon);
  for (const auto& [number, live] : Live()) {
    Job& job = *live;
    std::vector<int> ran;
    for (size_t process = 0; process < job.workers.size(); ++process) {
      const pb::StoredWorker& stored = job.workers[process].stored;
      if (stored.daemon() != daemon || stored.released()) continue;
      if (!stored.finished()) ran.push_back(process);
      Release(job, process, effects);
    }
    QueueAgainIfStopped(job, now, effects);
    if (ran.empty() || !Runs(job)) continue;
    FailJob(job, true,
            absl::StrCat("daemon '", daemon, "' (pid ", daemons_.pid(daemon), ") was lost: ", reason, "; it ran ",
                         ran.size() == 1 ? "worker " : "workers ", absl::StrJoin(ran, ", "), " of job ", number),
            now, effects);
  }
  PlaceQueued(now, effects);
}

bool SchedulerState::AwaitsDaemon(const Job& job) const {
  return std::any_of(job.workers.begin(), job.workers.end(), [this](const Worker& worker) {
    return !worker.stored.released() && !daemons_.Has(worker.session);
  });
}

absl::Status SchedulerState::Drain(const std::string& name, bool undo, absl::Time now, Effects& effects) {
  OF_RETURN_IF_ERROR(daemons_.Drain(name, undo, effects));
  PlaceQueued(now, effects);
  return absl::OkStatus();
}

pb::NodesReply SchedulerState::Nodes() const {
  std::map<std::string, std::vector<int64_t>> jobs;  // that have something there, by daemon
  for (const auto& [number, job] : jobs_) {
    std::set<std::string> daemons;
    for (const Worker& worker : job.workers) {
      if (!worker.stored.released()) daemons.insert(worker.stored.daemon());
    }
    for (const std::string& daemon : daemons) jobs[daemon].push_back(number);
  }
  pb::NodesReply reply;
  for (pb::Node& node : daemons_.Nodes()) {
    for (const int64_t job : jobs[node.name()]) node.add_jobs(job);
    *reply.add_nodes() = std::move(node);
  }
  return reply;
}

SchedulerState::Worker* SchedulerState::FindWorker(SessionId session, int64_t number, uint64_t attempt, int process) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end() || found->second.attempt != attempt) return nullptr;
  std::vector<Worker>& workers = found->second.workers;
  if (process < 0 || process >= static_cast<int>(workers.size())) return nullptr;
  return workers[process].session == session ? &workers[process] : nullptr;
}

void SchedulerState::Release(Job& job, int process, Effects& effects) {
  Worker& worker = job.workers[process];
  if (worker.stored.released()) return;
  worker.stored.set_released(true);
  MarkChanged(job, process, effects);
  daemons_.GiveBack(worker.session, job.cuda, job.status.devices_per_process(), worker.bytes);
}

std::string SchedulerState::NameOf(const Job& job, int process) {
  const pb::StoredWorker& stored = job.workers[process].stored;
  return DescribeWorker(process, stored.pid(), stored.daemon());
}

void SchedulerState::MarkChanged(const Job& job, int process, Effects& effects) {
  effects.changed_workers[{job.status.job(), process}] = job.workers[process].stored;
}

void SchedulerState::OnReport(SessionId session, const pb::WorkerReport& report, absl::Time now, Effects& effects) {
  Worker* worker = FindWorker(session, report.job(), report.attempt(), report.process());
  if (worker == nullptr) return;
  Job& job = jobs_.at(report.job());
  if (!Runs(job)) return;
  switch (report.message().kind_case()) {
    case pb::FromWorker::kHello:
      return OnWorkerHello(job, report.process(), report.message().hello(), now, effects);
    case pb::FromWorker::kFetched:
      return OnFetched(job, report.message().fetched(), effects);
    case pb::FromWorker::kPhaseDone:
      return OnPhaseDone(job, report.process(), report.message().phase_done(), now, effects);
    case pb::FromWorker::kNotice: {
      pb::JobEvent event;
      event.set_time_us(absl::ToUnixMicros(now));
      *event.mutable_notice() = report.message().notice();
      return AddEvent(job, std::move(event), effects);
    }
    case pb::FromWorker::kFinished:
      return OnFinished(job, report.process(), now, effects);
    case pb::FromWorker::kFailed:
      return OnFailed(job, report.process(), report.message().failed(), now, effects);
    case pb::FromWorker::kWaits:
      return OnStall(job, report.message().waits().waits(), now, effects);
    case pb::FromWorker::kAlive:  // the daemon's affair
    case pb::FromWorker::kStats:
    case pb::FromWorker::KIND_NOT_SET:
      return;
  }
}

// The last hello completes the set of addresses, which every worker needs to find its peers.
void SchedulerState::OnWorkerHello(Job& job, int process, const pb::WorkerHello& hello, absl::Time now,
                                   Effects& effects) {
  job.workers[process].stored.set_pid(hello.pid());
  job.workers[process].stored.set_peer_address(hello.peer_address());
  MarkChanged(job, process, effects);
  if (job.status.state() != pb::STARTING) return;
  for (const Worker& worker : job.workers) {
    if (worker.stored.peer_address().empty()) return;
  }
  job.due = absl::InfiniteFuture();
  ChangeState(job, pb::RUNNING, "", now, effects);
  TellWorkers(job, StartMessage(job), effects);
}

pb::ToWorker SchedulerState::StartMessage(const Job& job) const {
  pb::ToWorker message;
  for (const Worker& worker : job.workers) message.mutable_start()->add_peer_addresses(worker.stored.peer_address());
  return message;
}

void SchedulerState::TellWorkers(const Job& job, const pb::ToWorker& message, Effects& effects) {
  for (size_t process = 0; process < job.workers.size(); ++process) TellWorker(job, process, message, effects);
}

void SchedulerState::TellWorker(const Job& job, int process, const pb::ToWorker& message, Effects& effects) {
  if (job.workers[process].stored.released()) return;
  pb::ToDaemon to_daemon;
  to_daemon.mutable_to_worker()->set_job(job.status.job());
  to_daemon.mutable_to_worker()->set_process(process);
  to_daemon.mutable_to_worker()->set_attempt(job.attempt);
  *to_daemon.mutable_to_worker()->mutable_message() = message;
  effects.messages.emplace_back(job.workers[process].session, std::move(to_daemon));
}

void SchedulerState::OnFetched(Job& job, const pb::WorkerFetched& fetched, Effects& effects) {
  for (const pb::TimedValue& value : fetched.values()) {
    pb::JobEvent event;
    event.set_time_us(value.time_us());
    *event.mutable_fetched() = value.value();
    AddEvent(job, std::move(event), effects);
  }
}

// Workers pass the parts of a job in order, so a count per worker says all.
void SchedulerState::OnPhaseDone(Job& job, int process, const pb::WorkerPhaseDone& done, absl::Time now,
                                 Effects& effects) {
  if (done.has_stats()) {
    pb::JobEvent counted;
    counted.set_time_us(absl::ToUnixMicros(now));
    counted.mutable_stats()->set_process(process);
    counted.mutable_stats()->set_part(done.part());
    *counted.mutable_stats()->mutable_stats() = done.stats();
    AddEvent(job, std::move(counted), effects);
  }
  job.workers[process].stored.set_phases_done(job.workers[process].stored.phases_done() + 1);
  MarkChanged(job, process, effects);
  for (const Worker& peer : job.workers) {
    if (peer.stored.phases_done() <= job.phases_done) return;
  }
  pb::JobEvent event;
  event.set_time_us(absl::ToUnixMicros(now));
  event.mutable_phase_done()->set_part(job.phases_done++);
  *event.mutable_phase_done()->mutable_done() = done.done();
  AddEvent(job, std::move(event), effects);
}

// A worker that finished stays until it is dismissed, since its peers may still read its registers.
void SchedulerState::OnFinished(Job& job, int process, absl::Time now, Effects& effects) {
  job.workers[process].stored.set_finished(true);
  MarkChanged(job, process, effects);
  for (const Worker& worker : job.workers) {
    if (!worker.stored.finished()) return;
  }
  TellWorkers(job, DismissalMessage(), effects);
  const bool asked = job.status.asked_to_stop();
  if (job.status.growing() && !asked) {
    job.stopping = "it ended to go on with more devices";
    job.status.set_attempts(job.status.attempts() + 1);
    job.status.set_message(*job.stopping);  // by which a restarted scheduler knows
    effects.changed_jobs.push_back(job.status);
    job.due = now + limits_.exit;
    return QueueAgainIfStopped(job, now, effects);
  }
  EndJob(job, asked ? pb::CANCELLED : pb::FINISHED, asked ? "stopped on request" : "", now, effects);
}

void SchedulerState::OnFailed(Job& job, int process, const pb::WorkerFailed& failed, absl::Time now, Effects& effects) {
  Worker& worker = job.workers[process];
  worker.complained = true;
  std::string message = absl::StrCat(NameOf(job, process), ": ", failed.message());
  const auto code = static_cast<absl::StatusCode>(failed.code());
  const Suspicion suspicion = SuspicionOf(code);
  if (suspicion == Suspicion::kCause) return FailJob(job, IsCurable(code), message, now, effects);
  if (!job.complaint) {
    job.complaint = Complaint{suspicion, std::move(message), now + limits_.grace};
  } else if (suspicion > job.complaint->suspicion) {
    job.complaint->suspicion = suspicion;
    job.complaint->message = std::move(message);
  }
}

void SchedulerState::OnExit(SessionId session, const pb::WorkerExit& exited, absl::Time now, Effects& effects) {
  Worker* worker = FindWorker(session, exited.job(), exited.attempt(), exited.process());
  if (worker == nullptr) return;
  Job& job = jobs_.at(exited.job());
  Release(job, exited.process(), effects);
  // A worker that complained exits because of what it complained about, unless something killed it.
  const bool explained = worker->stored.finished() || (worker->complained && exited.signal() == 0);
  QueueAgainIfStopped(job, now, effects);
  if (Runs(job) && !explained) FailJob(job, true, DescribeExit(exited, worker->stored.daemon()), now, effects);
  PlaceQueued(now, effects);
}

absl::Status SchedulerState::QueryLogs(int64_t request, const pb::LogsRequest& asked, absl::Time now,
                                       Effects& effects) {
  const int64_t number = asked.job();
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return absl::NotFoundError(absl::StrCat("there is no job ", number));
  const std::vector<Worker>& workers = found->second.workers;
  if (workers.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", number, " has no workers under this scheduler: ",
        Ended(found->second) ? "it ended before they started, or before the scheduler did" : "it is still queued"));
  }
  const int count = static_cast<int>(workers.size());
  if (asked.has_process() && (asked.process() < 0 || asked.process() >= count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", number, " has ", count, " workers; there is no worker ", asked.process()));
  }
  if (!asked.has_process() && count > kMostLogs) {
    return absl::FailedPreconditionError(absl::StrCat("job ", number, " has ", count,
                                                      " workers; the logs of more than ", kMostLogs,
                                                      " are not sent at once: ask for one"));
  }
  const int first = asked.process(), end = asked.has_process() ? first + 1 : count;
  std::vector<LogQueries::Worker> of;
  for (int process = first; process < end; ++process) {
    const Worker& worker = workers[process];
    LogQueries::Worker& from = of.emplace_back(LogQueries::Worker{.daemon = worker.stored.daemon()});
    if (!daemons_.Has(worker.session)) continue;
    from.session = worker.session;
    pb::ToDaemon message;
    message.mutable_logs()->set_request(request);
    message.mutable_logs()->set_job(number);
    message.mutable_logs()->set_process(process);
    if (asked.has_offset()) message.mutable_logs()->set_offset(asked.offset());
    effects.messages.emplace_back(worker.session, std::move(message));
  }
  logs_.Begin(request, first, of, now);
  TickLogs(now, effects);
  return absl::OkStatus();
}

void SchedulerState::TickLogs(absl::Time now, Effects& effects) {
  for (auto& answered : logs_.Take(now)) effects.logs.push_back(std::move(answered));
}

absl::Status SchedulerState::Diagnose(int64_t request, int64_t number, absl::Time now, Effects& effects) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return absl::NotFoundError(absl::StrCat("there is no job ", number));
  const pb::JobStatus& status = found->second.status;
  if (status.state() != pb::RUNNING) {
    return absl::FailedPreconditionError(absl::StrCat("job ", number,
                                                      " does not run: ", pb::JobState_Name(status.state()),
                                                      status.message().empty() ? "" : ": ", status.message()));
  }
  AskWorkers(request, found->second, now, /*stall=*/std::nullopt, effects);
  return absl::OkStatus();
}

void SchedulerState::AskWorkers(int64_t request, const Job& job, absl::Time now, std::optional<pb::ProcessWaits> stall,
                                Effects& effects) {
  std::vector<std::string> names;
  for (size_t process = 0; process < job.workers.size(); ++process) {
    const Worker& worker = job.workers[process];
    names.push_back(absl::StrCat("pid ", worker.stored.pid(), " on daemon '", worker.stored.daemon(), "'"));
    pb::ToDaemon message;
    message.mutable_diagnose()->set_request(request);
    message.mutable_diagnose()->set_job(job.status.job());
    message.mutable_diagnose()->set_process(static_cast<int>(process));
    message.mutable_diagnose()->set_attempt(job.attempt);
    effects.messages.emplace_back(worker.session, std::move(message));
  }
  diagnoses_.Begin(request, job.status.job(), std::move(names), now + limits_.diagnosis, std::move(stall));
}

// What a worker says unasked. Others will say the same.
void SchedulerState::OnStall(Job& job, const pb::ProcessWaits& waits, absl::Time now, Effects& effects) {
  if (!diagnoses_.IsStalled(job.status.job())) AskWorkers(--last_stall_, job, now, waits, effects);
}

void SchedulerState::EndStall(Job& job, const Diagnoses::Finished& finished, absl::Time now, Effects& effects) {
  if (!Runs(job)) return;
  const double seconds = job.spec.stall().seconds() > 0 ? job.spec.stall().seconds() : kStallSeconds;
  std::string text = absl::StrCat("nothing moved in process ", finished.stalled, " for ", seconds, " s",
                                  finished.goes_on ? ", now it goes on: " : ": ", finished.text);
  if (job.spec.stall().abort() && !finished.goes_on) {
    FailJob(job, true, text, now, effects);
    return PlaceQueued(now, effects);
  }
  pb::JobEvent event;
  event.set_time_us(absl::ToUnixMicros(now));
  event.mutable_stall()->set_process(finished.stalled);
  event.mutable_stall()->set_text(std::move(text));
  AddEvent(job, std::move(event), effects);
}

void SchedulerState::TickDiagnoses(absl::Time now, Effects& effects) {
  for (Diagnoses::Finished& finished : diagnoses_.Take(now)) {
    if (finished.stalled >= 0) {
      if (const auto job = jobs_.find(finished.job); job != jobs_.end()) EndStall(job->second, finished, now, effects);
    } else {
      effects.diagnoses.emplace_back(finished.request, std::move(finished.text));
    }
  }
}

}  // namespace oneflow
