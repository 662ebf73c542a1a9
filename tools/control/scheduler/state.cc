// The jobs of a scheduler (state.h): what clients ask, what becomes of a job, and what time brings.
#include "tools/control/scheduler/state.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "oneflow_core/status.h"

namespace oneflow {
namespace {

pb::ToWorker SaveMessage() {
  pb::ToWorker message;
  message.mutable_save();
  return message;
}

}  // namespace

void SchedulerState::Restore(std::vector<StoredJob> jobs, std::map<std::string, pb::StoredDaemon> daemons,
                             absl::Time now, Effects& effects) {
  daemons_.Restore(std::move(daemons));
  for (StoredJob& stored : jobs) {
    const int64_t number = stored.status.job();
    next_job_ = std::max(next_job_, number + 1);
    Job& job = jobs_[number];
    job.status = std::move(stored.status);
    job.spec = std::move(stored.spec);
    job.cuda = job.status.device() == "cuda";
    job.next_sequence = stored.next_sequence;
    job.attempt = job.status.attempt();
    job.queued = job.status.state() == pb::QUEUED;
    num_queued_ += job.queued;
    RestoreWorkers(job, std::move(stored.workers), now);
    if (MayChange(job)) live_[number] = &job;
    if (Ended(job)) continue;
    job.gangs = std::move(stored.gangs);
    if (job.queued) BeginWaiting(job, now);
    // Another version of this program may have accepted it.
    if (absl::IsDataLoss(stored.valid)) {
      EndJob(job, pb::FAILED, stored.valid.message(), now, effects);
    } else if (!stored.valid.ok()) {
      EndJob(job, pb::FAILED, absl::StrCat("the restarted scheduler refuses the job: ", stored.valid.message()), now,
             effects);
    } else if (job.status.state() != pb::QUEUED && job.workers.empty()) {
      EndJob(job, pb::FAILED, "the store does not say where the job ran", now, effects);  // one of version 1
    }
  }
}

// Those that have not exited are awaited with their daemons.
void SchedulerState::RestoreWorkers(Job& job, std::vector<pb::StoredWorker> stored, absl::Time now) {
  // An earlier attempt may have had more processes.
  if (!job.queued && stored.size() > static_cast<size_t>(job.status.processes())) {
    stored.resize(job.status.processes());
  }
  for (pb::StoredWorker& worker : stored) {
    if (!worker.released()) daemons_.AwaitAfterRestart(worker.daemon(), now);
    job.workers.push_back({.stored = std::move(worker)});
  }
  if (job.status.state() == pb::STARTING) job.due = now + limits_.start;
  if (Ended(job) && Dismissed(job)) job.due = now + limits_.exit;
  const bool ran = job.status.state() == pb::STARTING || job.status.state() == pb::RUNNING;
  if (ran && !job.status.message().empty()) job.stopping = job.status.message();
  if (job.workers.empty()) return;
  job.phases_done = std::min_element(job.workers.begin(), job.workers.end(), [](const Worker& a, const Worker& b) {
                      return a.stored.phases_done() < b.stored.phases_done();
                    })->stored.phases_done();
}

absl::Status SchedulerState::MayQueue() const {
  if (num_queued_ < limits_.queued) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(num_queued_, " jobs are in the queue, and that is all it may hold"));
}

void SchedulerState::Enqueue(Job& job, AcceptedSpec accepted, Effects& effects) {
  job.gangs = std::move(accepted.gangs);
  job.spec = std::move(accepted.spec);
  SetLayout(job, 0);
  effects.new_jobs.push_back({job.status.job(), job.spec, std::move(accepted.plans)});
}

absl::StatusOr<int64_t> SchedulerState::Submit(AcceptedSpec accepted, absl::Time now, Effects& effects) {
  OF_RETURN_IF_ERROR(MayQueue());
  const pb::JobSpec& spec = accepted.spec;
  const int64_t number = next_job_++;
  Job& job = jobs_[number];
  live_[number] = &job;
  job.status.set_job(number);
  job.status.set_name(spec.name());
  job.status.set_user(accepted.user);
  job.status.set_priority(accepted.priority);
  job.status.set_submitted_us(absl::ToUnixMicros(now));
  job.status.set_attempts(std::max(spec.restart().attempts(), 1));
  job.status.set_device(spec.device());
  job.cuda = spec.device() == "cuda";
  Enqueue(job, std::move(accepted), effects);
  ChangeState(job, pb::QUEUED, "", now, effects);
  PlaceQueued(now, effects);
  return number;
}

absl::Status SchedulerState::Cancel(int64_t number, bool gently, absl::Time now, Effects& effects) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return absl::NotFoundError(absl::StrCat("there is no job ", number));
  if (Ended(found->second)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", number, " has ended: ", pb::JobState_Name(found->second.status.state())));
  }
  if (gently && found->second.status.state() == pb::RUNNING && !found->second.stopping) {
    found->second.status.set_asked_to_stop(true);
    effects.changed_jobs.push_back(found->second.status);
    TellWorkers(found->second, StopMessage(), effects);
    return absl::OkStatus();
  }
  EndJob(found->second, pb::CANCELLED, "cancelled on request", now, effects);
  PlaceQueued(now, effects);
  return absl::OkStatus();
}

void SchedulerState::Abandon(const LostStart& lost, absl::Time now, Effects& effects) {
  const auto found = jobs_.find(lost.job);
  if (found == jobs_.end() || found->second.attempt != lost.attempt) return;
  Job& job = found->second;
  for (const int process : lost.processes) Release(job, process, effects);
  if (!Ended(job)) EndJob(job, pb::FAILED, lost.why, now, effects);
  PlaceQueued(now, effects);
}

absl::Status SchedulerState::Save(int64_t number, Effects& effects) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return absl::NotFoundError(absl::StrCat("there is no job ", number));
  const Job& job = found->second;
  if (job.status.state() != pb::RUNNING || job.stopping) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", number, " does not run now: ", pb::JobState_Name(job.status.state())));
  }
  if (!job.spec.has_checkpoint()) {
    return absl::FailedPreconditionError(absl::StrCat("job ", number, " has no checkpoint.path: there is no place"));
  }
  TellWorkers(job, SaveMessage(), effects);
  return absl::OkStatus();
}

absl::Status SchedulerState::Retry(int64_t number, AcceptedSpec accepted, absl::Time now, Effects& effects) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return absl::NotFoundError(absl::StrCat("there is no job ", number));
  Job& job = found->second;
  if (job.status.state() != pb::FAILED && job.status.state() != pb::CANCELLED) {
    return absl::FailedPreconditionError(absl::StrCat("job ", number, " is ", pb::JobState_Name(job.status.state()),
                                                      "; one that FAILED or was CANCELLED may be tried again"));
  }
  for (size_t process = 0; process < job.workers.size(); ++process) {
    if (job.workers[process].stored.released()) continue;
    return absl::FailedPreconditionError(absl::StrCat(NameOf(job, process), " has not exited yet: ask again"));
  }
  OF_RETURN_IF_ERROR(MayQueue());
  job.status.set_attempts(std::max(job.status.attempts(), job.status.attempt() + 1));
  job.status.clear_asked_to_stop();
  job.status.clear_growing();
  job.status.clear_finished_us();
  job.phases_done = 0;
  live_[number] = &job;
  Enqueue(job, std::move(accepted), effects);
  ChangeState(job, pb::QUEUED,
              absl::StrCat("attempt ", job.status.attempt() + 1, " of ", job.status.attempts(), " on request"), now,
              effects);
  PlaceQueued(now, effects);
  return absl::OkStatus();
}

std::vector<pb::JobStatus> SchedulerState::List() const {
  std::vector<pb::JobStatus> list;
  Clusters clusters;
  for (const auto& [number, job] : jobs_) list.push_back(StatusOf(job, clusters));
  return list;
}

pb::JobStatus SchedulerState::StatusOf(const Job& job, Clusters& clusters) const {
  pb::JobStatus status = job.status;
  if (status.state() == pb::QUEUED) status.set_message(WaitsFor(job, clusters));
  return status;
}

absl::StatusOr<pb::DescribeReply> SchedulerState::Describe(int64_t number) const {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return absl::NotFoundError(absl::StrCat("there is no job ", number));
  pb::DescribeReply reply;
  Clusters clusters;
  *reply.mutable_status() = StatusOf(found->second, clusters);
  for (size_t process = 0; process < found->second.workers.size(); ++process) {
    *reply.add_workers() = PlaceOf(found->second, process);
  }
  return reply;
}

pb::WorkerPlace SchedulerState::PlaceOf(const Job& job, int process) const {
  const Worker& worker = job.workers[process];
  pb::WorkerPlace place;
  place.set_process(process);
  place.set_daemon(worker.stored.daemon());
  place.set_pid(worker.stored.pid());
  place.set_phases_done(worker.stored.phases_done());
  place.set_state(worker.stored.released()               ? "gone"
                  : !daemons_.Has(worker.session)        ? "its daemon is away"
                  : worker.stored.finished()             ? "finished"
                  : worker.stored.peer_address().empty() ? "starting"
                                                         : "running");
  return place;
}

absl::StatusOr<pb::JobStatus> SchedulerState::Find(int64_t number) const {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return absl::NotFoundError(absl::StrCat("there is no job ", number));
  return found->second.status;
}

bool SchedulerState::HasEnded(int64_t number) const {
  const auto found = jobs_.find(number);
  return found == jobs_.end() || Ended(found->second);
}

int64_t SchedulerState::num_events(int64_t number) const {
  const auto found = jobs_.find(number);
  return found == jobs_.end() ? 0 : found->second.next_sequence;
}

bool SchedulerState::MayChange(const Job& job) {
  return !Ended(job) || !std::all_of(job.workers.begin(), job.workers.end(),
                                     [](const Worker& worker) { return worker.stored.released(); });
}

bool SchedulerState::Forget(int64_t number, Effects& effects) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return true;
  if (MayChange(found->second)) return false;
  if (number == next_job_ - 1) return true;
  std::set<SessionId> sessions;
  for (const Worker& worker : found->second.workers) {
    if (daemons_.Has(worker.session)) sessions.insert(worker.session);
  }
  for (const SessionId session : sessions) {
    pb::ToDaemon message;
    message.mutable_forget()->set_job(number);
    effects.messages.emplace_back(session, std::move(message));
  }
  live_.erase(number);
  jobs_.erase(found);
  return true;
}

bool SchedulerState::Dismissed(const Job& job) {
  return !job.workers.empty() &&
         std::all_of(job.workers.begin(), job.workers.end(), [](const Worker& w) { return w.stored.finished(); });
}

void SchedulerState::AddEvent(Job& job, pb::JobEvent event, Effects& effects) {
  event.set_sequence(job.next_sequence++);
  effects.events.emplace_back(job.status.job(), std::move(event));
}

void SchedulerState::ChangeState(Job& job, pb::JobState state, absl::string_view message, absl::Time now,
                                 Effects& effects) {
  num_queued_ += (state == pb::QUEUED) - job.queued;
  job.queued = state == pb::QUEUED;
  job.status.set_state(state);
  job.status.set_message(std::string(message));
  if (job.queued) BeginWaiting(job, now);
  if (Ended(job)) job.status.set_finished_us(absl::ToUnixMicros(now));
  effects.changed_jobs.push_back(job.status);
  pb::JobEvent event;
  event.set_time_us(absl::ToUnixMicros(now));
  event.mutable_state()->set_state(state);
  event.mutable_state()->set_message(std::string(message));
  AddEvent(job, std::move(event), effects);
}

// Workers that finished exit by themselves within `exit`; all others are stopped now.
void SchedulerState::EndJob(Job& job, pb::JobState state, absl::string_view message, absl::Time now, Effects& effects) {
  ChangeState(job, state, message, now, effects);
  diagnoses_.GiveUp(job.status.job(), absl::StrCat(pb::JobState_Name(state), message.empty() ? "" : ": ", message));
  job.spec.Clear();
  job.gangs.clear();
  job.complaint.reset();
  job.stopping.reset();
  job.due = Dismissed(job) ? now + limits_.exit : absl::InfiniteFuture();
  if (!Dismissed(job)) StopWorkers(job, effects);
}

void SchedulerState::FailJob(Job& job, bool curable, absl::string_view message, absl::Time now, Effects& effects) {
  if (!curable || job.status.asked_to_stop() || job.status.attempt() >= job.status.attempts()) {
    return EndJob(job, pb::FAILED, message, now, effects);
  }
  job.complaint.reset();
  job.stopping = std::string(message);
  job.due = absl::InfiniteFuture();
  job.status.set_message(std::string(message));  // by which a restarted scheduler knows
  effects.changed_jobs.push_back(job.status);
  StopWorkers(job, effects);
  diagnoses_.GiveUp(job.status.job(), message);
  TickDiagnoses(now, effects);  // before the next attempt could be taken for this one
  QueueAgainIfStopped(job, now, effects);
}

void SchedulerState::QueueAgainIfStopped(Job& job, absl::Time now, Effects& effects) {
  if (!job.stopping) return;
  if (!std::all_of(job.workers.begin(), job.workers.end(), [](const Worker& w) { return w.stored.released(); })) return;
  job.phases_done = 0;
  job.status.clear_growing();
  SetLayout(job, 0);
  const std::string cause = *std::exchange(job.stopping, std::nullopt);
  ChangeState(job, pb::QUEUED,
              absl::StrCat("attempt ", job.status.attempt() + 1, " of ", job.status.attempts(), " after: ", cause), now,
              effects);
}

void SchedulerState::StopWorkers(const Job& job, Effects& effects) {
  std::set<SessionId> sessions;
  for (const Worker& worker : job.workers) {
    if (!worker.stored.released()) sessions.insert(worker.session);
  }
  for (const SessionId session : sessions) {
    pb::ToDaemon message;
    message.mutable_stop()->set_job(job.status.job());
    message.mutable_stop()->set_attempt(job.attempt);
    effects.messages.emplace_back(session, std::move(message));
  }
}

void SchedulerState::Oversleep(absl::Duration pause, absl::Time now) {
  daemons_.Oversleep(pause, now);
  for (const auto& [number, job] : Live()) {
    job->due += pause;
    job->own_layout_until += pause;
    if (job->complaint) job->complaint->due += pause;
  }
  logs_.Delay(pause);
  diagnoses_.Delay(pause);
}

void SchedulerState::Tick(absl::Time now, Effects& effects) {
  if (now - last_tick_ > limits_.pause && last_tick_ != absl::InfinitePast()) Oversleep(now - last_tick_, now);
  last_tick_ = now;
  for (const auto& [session, reason] : daemons_.Silent(now)) {
    const std::string name = daemons_.At(session).hello.name();
    effects.closed_sessions.emplace_back(session, absl::DeadlineExceededError(reason));
    ForgetSession(session, effects);
    LoseWorkers(name, reason, now, effects);
  }
  for (const auto& [name, away] : daemons_.Overdue(now)) LoseWorkers(name, away, now, effects);
  for (const auto& [number, job] : Live()) {
    TickJob(*job, now, effects);
    Grow(*job, now, effects);
  }
  std::erase_if(live_, [](const auto& entry) { return !MayChange(*entry.second); });
  TickLogs(now, effects);
  TickDiagnoses(now, effects);
}

void SchedulerState::TickJob(Job& job, absl::Time now, Effects& effects) {
  // What a daemon that is away may have to say comes first: its loss, or that of its worker, is the cause.
  if (job.complaint && job.complaint->due <= now && !AwaitsDaemon(job)) {
    FailJob(job, true, std::string(job.complaint->message), now, effects);
    PlaceQueued(now, effects);
    return;
  }
  if (now < job.due) return;
  job.due = absl::InfiniteFuture();
  if (job.queued) return PlaceQueued(now, effects);
  if (Ended(job) || job.stopping) return StopWorkers(job, effects);  // finished, but some worker would not exit
  for (size_t process = 0; process < job.workers.size(); ++process) {
    if (!job.workers[process].stored.peer_address().empty()) continue;
    return FailJob(job, true,
                   absl::StrCat(NameOf(job, process), " was not ready within ", absl::FormatDuration(limits_.start)),
                   now, effects);
  }
}

}  // namespace oneflow
