#include "tools/control/scheduler/state.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "actor/engine.h"
#include "oneflow_core/status.h"

namespace oneflow {
namespace {

// Jobs behind the first that waits; the lock is held while they are looked at.
constexpr int kLookBehind = 64;
// Of a job, in one answer; each has some 64 KB.
constexpr int kMostLogs = 256;

template <typename T>
void MoveBehind(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

pb::ToWorker StopMessage() {
  pb::ToWorker message;
  message.mutable_stop();
  return message;
}

pb::ToWorker SaveMessage() {
  pb::ToWorker message;
  message.mutable_save();
  return message;
}

pb::ToWorker DismissalMessage() {
  pb::ToWorker message;
  message.mutable_dismissal();
  return message;
}

}  // namespace

void Effects::Append(Effects later) {
  MoveBehind(new_jobs, later.new_jobs);
  MoveBehind(changed_jobs, later.changed_jobs);
  MoveBehind(events, later.events);
  MoveBehind(messages, later.messages);
  MoveBehind(closed_sessions, later.closed_sessions);
  MoveBehind(logs, later.logs);
  MoveBehind(diagnoses, later.diagnoses);
  for (auto& [worker, stored] : later.changed_workers) changed_workers[worker] = std::move(stored);
  for (auto& [name, stored] : later.changed_daemons) changed_daemons[name] = std::move(stored);
  for (const auto& [session, number] : later.acknowledged) acknowledged[session] = number;
}

// --- Jobs ---

void SchedulerState::Restore(std::vector<StoredJob> jobs, std::map<std::string, pb::StoredDaemon> daemons,
                             absl::Time now, Effects& effects) {
  for (auto& [name, stored] : daemons) known_[name].stored = std::move(stored);
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
    if (!worker.released()) {
      Known& known = known_[worker.daemon()];
      known.due = now + limits_.restart;
      known.away = absl::StrCat("it did not come back within ", absl::FormatDuration(limits_.restart),
                                " of the scheduler's restart");
    }
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
                  : !daemons_.contains(worker.session)   ? "its daemon is away"
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
    if (daemons_.contains(worker.session)) sessions.insert(worker.session);
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

// --- Placement ---

std::vector<SchedulerState::Job*> SchedulerState::Line() {
  std::vector<Job*> line;
  for (const auto& [number, job] : Live()) {
    if (job->queued) line.push_back(job);
  }
  std::stable_sort(line.begin(), line.end(),
                   [](const Job* a, const Job* b) { return a->status.priority() > b->status.priority(); });
  return line;
}

void SchedulerState::PlaceQueued(absl::Time now, Effects& effects) {
  if (num_queued_ == 0) return;
  const Job* first = nullptr;  // that waits
  Spares spares;
  Clusters clusters;
  int behind = 0;
  for (Job* job : Line()) {
    ChooseLayout(*job, clusters, now);
    if (BeyondQuota(*job)) continue;
    if (first == nullptr) {
      if (TryPlace(*job, ClusterFor(*job, clusters).free, clusters, now, effects)) continue;
      if (!CouldHold(*job, job->gang(), clusters)) continue;
      first = job;
      spares = SparesOf(*first);
    } else {
      if (++behind > kLookBehind) return;
      if (TryPlace(*job, FreeBehind(*first, spares, *job, clusters), clusters, now, effects)) spares = SparesOf(*first);
    }
  }
}

bool SchedulerState::CouldHold(const Job& job, const Gang& gang, Clusters& clusters) const {
  return !PlaceGang(ClusterFor(job, clusters).offered, gang).empty();
}

// A daemon that was lost may come back.
void SchedulerState::BeginWaiting(Job& job, absl::Time now) {
  if (!MayFallBack(job)) return;
  job.own_layout_until = now + absl::Seconds(job.spec.restart().wait_seconds());
  job.due = job.own_layout_until;
}

void SchedulerState::ChooseLayout(Job& job, Clusters& clusters, absl::Time now) const {
  if (!MayFallBack(job)) return;
  int chosen = 0;
  if (now >= job.own_layout_until && !CouldHold(job, job.gangs[0], clusters)) {
    const int layouts = static_cast<int>(job.gangs.size());
    int fallback = 1;
    while (fallback < layouts && !CouldHold(job, job.gangs[fallback], clusters)) ++fallback;
    if (fallback < layouts) chosen = fallback;
  }
  SetLayout(job, chosen);
}

void SchedulerState::SetLayout(Job& job, int fallback) {
  const pb::Fallback* const layout = fallback == 0 ? nullptr : &job.spec.fallbacks(fallback - 1);
  job.status.set_fallback(fallback);
  job.status.set_processes(layout == nullptr ? job.spec.processes() : layout->processes());
  job.status.set_devices_per_process(layout == nullptr ? job.spec.devices_per_process()
                                                       : layout->devices_per_process());
}

// A daemon holds as many processes of a job as `free / devices_per_process`, rounded down. What has ended there by the
// time that the job begins, nobody knows: free may be what it is now, and any sum of what runs there beside it. What is
// left over in each of these cases is of no use to the job.
SchedulerState::Spares SchedulerState::SparesOf(const Job& first) const {
  std::map<SessionId, std::vector<bool>> reachable;  // by how many may be free
  for (const auto& [session, daemon] : daemons_) {
    std::vector<bool>& sums = reachable[session];
    sums.resize(daemon.offered(first.cuda) + 1, false);
    sums[std::max(daemon.free(first.cuda), 0)] = true;
  }
  for (const auto& [number, job] : Live()) {
    if (job->cuda != first.cuda) continue;
    for (const Worker& worker : job->workers) {
      const auto found = worker.stored.released() ? reachable.end() : reachable.find(worker.session);
      if (found == reachable.end()) continue;
      const int ends = job->status.devices_per_process();
      for (int sum = static_cast<int>(found->second.size()) - 1; sum >= ends; --sum) {
        if (found->second[sum - ends]) found->second[sum] = true;
      }
    }
  }
  Spares spares;
  for (const auto& [session, sums] : reachable) {
    int& spare = spares[session] = static_cast<int>(sums.size());
    for (size_t sum = 0; sum < sums.size(); ++sum) {
      if (sums[sum]) spare = std::min(spare, static_cast<int>(sum) % first.gang().devices_per_process);
    }
  }
  return spares;
}

// Of memory what is left beside as many processes of the first job as a machine's devices could ever hold.
std::vector<Machine> SchedulerState::FreeBehind(const Job& first, const Spares& spares, const Job& job,
                                                Clusters& clusters) const {
  const Cluster& cluster = ClusterFor(job, clusters);
  const std::vector<Machine>& for_first = ClusterFor(first, clusters).offered;  // the same machines
  std::vector<Machine> free = cluster.free;
  for (size_t machine = 0; machine < free.size(); ++machine) {
    for (size_t daemon = 0; job.cuda == first.cuda && daemon < free[machine].devices.size(); ++daemon) {
      int& devices = free[machine].devices[daemon];
      devices = std::min(devices, spares.at(cluster.session[machine][daemon]));
    }
    int64_t& bytes = free[machine].memory_bytes;
    if (bytes == kUnknownBytes || first.gang().process_bytes == 0) continue;
    const int64_t processes = ProcessesByDevices(for_first[machine], first.gang().devices_per_process);
    bytes = processes > bytes / first.gang().process_bytes ? 0 : bytes - processes * first.gang().process_bytes;
  }
  return free;
}

int SchedulerState::DevicesOf(const std::string& user, bool cuda) const {
  int devices = 0;
  for (const auto& [number, job] : Live()) {
    if (job->status.user() != user || job->cuda != cuda || job->queued) continue;
    for (const Worker& worker : job->workers) {
      if (!worker.stored.released()) devices += job->status.devices_per_process();
    }
  }
  return devices;
}

bool SchedulerState::BeyondQuota(const Job& job) const {
  if (limits_.devices_per_user == 0) return false;
  const int wanted = job.status.processes() * job.status.devices_per_process();
  return DevicesOf(job.status.user(), job.cuda) + wanted > limits_.devices_per_user;
}

// By name, so that the same cluster places the same job the same way whoever registered first.
SchedulerState::Cluster SchedulerState::MakeCluster(bool cuda) const {
  using Host = std::pair<std::string, std::string>;  // name, and whose memory its processes can map
  std::map<std::pair<Host, std::string>, SessionId> daemons;
  for (const auto& [session, daemon] : daemons_) {
    if (known_.at(daemon.hello.name()).stored.drained()) continue;
    daemons[{{daemon.hello.host(), daemon.hello.memory()}, daemon.hello.name()}] = session;
  }
  Cluster cluster;
  std::map<size_t, int64_t> used_bytes;  // by machine
  const Host* host = nullptr;
  for (const auto& [name, session] : daemons) {
    const Daemon& daemon = daemons_.at(session);
    if (host == nullptr || *host != name.first) {
      cluster.offered.emplace_back(), cluster.free.emplace_back(), cluster.session.emplace_back();
    }
    host = &name.first;
    Machine &offered = cluster.offered.back(), &free = cluster.free.back();
    offered.devices.push_back(daemon.offered(cuda));
    free.devices.push_back(daemon.free(cuda));
    cluster.session.back().push_back(session);
    if (const int64_t bytes = daemon.hello.memory_bytes(); bytes > 0) {
      offered.memory_bytes = std::min(offered.memory_bytes, bytes);
      used_bytes[cluster.free.size() - 1] += daemon.used_bytes;
    }
    const int64_t of_device = daemon.hello.cuda_device_memory_bytes();
    if (cuda && of_device > 0) offered.device_bytes = std::min(offered.device_bytes, of_device);
    free.device_bytes = offered.device_bytes;
  }
  for (size_t machine = 0; machine < cluster.free.size(); ++machine) {
    const int64_t bytes = cluster.offered[machine].memory_bytes;
    cluster.free[machine].memory_bytes =
        bytes == kUnknownBytes ? bytes : std::max<int64_t>(bytes - used_bytes[machine], 0);
  }
  return cluster;
}

const SchedulerState::Cluster& SchedulerState::ClusterFor(const Job& job, Clusters& clusters) const {
  std::optional<Cluster>& cluster = clusters[job.cuda];
  if (!cluster) cluster = MakeCluster(job.cuda);
  return *cluster;
}

bool SchedulerState::TryPlace(Job& job, const std::vector<Machine>& free, Clusters& clusters, absl::Time now,
                              Effects& effects) {
  const Cluster& cluster = ClusterFor(job, clusters);
  const std::vector<DaemonIndex> placed = PlaceGang(free, job.gang());
  if (placed.empty()) return false;
  if (const int fallback = job.status.fallback(); fallback > 0) {
    pb::JobEvent event;
    event.set_time_us(absl::ToUnixMicros(now));
    event.mutable_notice()->set_text(
        absl::StrCat("goes on with ", job.spec.fallbacks(fallback - 1).layout(), ": ",
                     WhatLacks(cluster.offered, job.gangs[0], job.cuda ? "cuda" : "cpu", Devices::kOffered)));
    AddEvent(job, std::move(event), effects);
  }
  std::vector<SessionId> sessions;
  for (const DaemonIndex at : placed) sessions.push_back(cluster.session[at.machine][at.daemon]);
  Start(job, sessions, now, effects);
  clusters = {};  // less is free
  return true;
}

// `sessions`: of each process's daemon.
void SchedulerState::Start(Job& job, const std::vector<SessionId>& sessions, absl::Time now, Effects& effects) {
  ++job.attempt;
  job.status.set_attempt(static_cast<int>(job.attempt));
  job.workers.assign(sessions.size(), Worker{});
  job.due = now + limits_.start;
  ChangeState(job, pb::STARTING, "", now, effects);
  for (size_t process = 0; process < sessions.size(); ++process) {
    Daemon& daemon = daemons_.at(sessions[process]);
    Take(job, process, daemon);
    job.workers[process].session = sessions[process];
    job.workers[process].stored.set_daemon(daemon.hello.name());
    MarkChanged(job, process, effects);
    SendStart(job, process, effects);
  }
}

void SchedulerState::Take(Job& job, int process, Daemon& daemon) {
  daemon.used(job.cuda) += job.status.devices_per_process();
  // Of a job that has ended nobody knows any more what its plan takes; its workers are about to exit.
  int64_t& bytes = job.workers[process].bytes;
  bytes = job.gangs.empty() ? 0 : job.gang().process_bytes;
  daemon.used_bytes += bytes;
}

void SchedulerState::SendStart(const Job& job, int process, Effects& effects) {
  pb::ToDaemon message;
  pb::StartWorker& start = *message.mutable_start();
  start.set_job(job.status.job());
  start.set_attempt(job.attempt);
  start.set_process(process);
  *start.mutable_spec() = OnLayout(job.spec, job.status.fallback());
  start.mutable_spec()->clear_graphs();
  effects.messages.emplace_back(job.workers[process].session, std::move(message));
}

// What is lacking, and why it may be, in a sentence.
std::string SchedulerState::WaitsFor(const Job& job, Clusters& clusters) const {
  const auto drained = std::count_if(daemons_.begin(), daemons_.end(), [this](const auto& entry) {
    return known_.at(entry.second.hello.name()).stored.drained();
  });
  const std::string beside = drained == 0 ? "" : absl::StrCat(" (drained: ", drained, ")");
  const Cluster& cluster = ClusterFor(job, clusters);
  const std::string device = job.cuda ? "cuda" : "cpu";
  if (BeyondQuota(job)) {
    return absl::StrCat("a user may have ", limits_.devices_per_user, " ", device, " devices; '", job.status.user(),
                        "' has ", DevicesOf(job.status.user(), job.cuda), ", and the job takes ",
                        job.status.processes() * job.status.devices_per_process());
  }
  if (drained > 0 && drained == static_cast<std::ptrdiff_t>(daemons_.size())) {
    return absl::StrCat("every daemon is drained", beside);
  }
  if (PlaceGang(cluster.offered, job.gang()).empty()) {
    return WhatLacks(cluster.offered, job.gang(), device, Devices::kOffered) + beside;
  }
  if (PlaceGang(cluster.free, job.gang()).empty()) {
    return WhatLacks(cluster.free, job.gang(), device, Devices::kFree) + beside;
  }
  return "another job is first in line, and would wait longer for its devices if this one had them";
}

// --- Daemons ---

absl::Status SchedulerState::DaemonHello(SessionId session, const pb::DaemonHello& hello, absl::Time now,
                                         Effects& effects) {
  const std::string& name = hello.name();
  OF_RETURN_IF_ERROR(ValidateHello(hello));
  for (const auto& [other_session, other] : daemons_) {
    if (other.hello.name() != name) continue;
    if (other.hello.incarnation() != hello.incarnation()) {
      return absl::AlreadyExistsError(absl::StrCat("the name '", name, "' is taken by the daemon with pid ",
                                                   other.hello.pid(), " on host '", other.hello.host(), "'"));
    }
    const SessionId former = other_session;  // it ends the loop's iterators
    effects.closed_sessions.emplace_back(former, absl::AbortedError("the daemon opened another session"));
    ForgetSession(former, effects);
    break;
  }
  Known& known = known_[name];
  if (known.stored.incarnation() != hello.incarnation()) {
    const bool forgotten = known.stored.incarnation() == 0;
    LoseWorkers(name,
                absl::StrCat(forgotten ? "the store no longer says which process it was" : "it was restarted", " (pid ",
                             hello.pid(), ")"),
                now, effects);
    known.stored.set_incarnation(hello.incarnation());
    known.stored.set_last_number(0);
  }
  known.stored.set_pid(hello.pid());
  known.due = absl::InfiniteFuture();
  effects.changed_daemons[name] = known.stored;
  daemons_[session] = Daemon{.hello = hello, .last_heard = now};
  heard_ = now;
  daemons_[session].hello.clear_workers();
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
  Take(job, process, daemons_.at(session));
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
  if (job.status.asked_to_stop()) TellWorker(job, process, StopMessage(), effects);
}

void SchedulerState::DaemonMessage(SessionId session, const pb::FromDaemon& message, absl::Time now, Effects& effects) {
  const auto found = daemons_.find(session);
  if (found == daemons_.end()) return;  // lost already; its stream is being closed
  // The first that is heard after all were silent: it may be a moment ahead of the others.
  if (now - heard_ > Hush()) {
    for (auto& [id, daemon] : daemons_) daemon.last_heard = now;
  }
  found->second.last_heard = heard_ = now;
  if (message.number() > 0) {
    const std::string& name = found->second.hello.name();
    pb::StoredDaemon& stored = known_[name].stored;
    effects.acknowledged[session] = message.number();
    if (message.number() <= stored.last_number()) return;  // said before
    stored.set_last_number(message.number());
    effects.changed_daemons[name] = stored;
  }
  switch (message.kind_case()) {
    case pb::FromDaemon::kReport:
      return OnReport(session, message.report(), now, effects);
    case pb::FromDaemon::kExited:
      return OnExit(session, message.exited(), now, effects);
    case pb::FromDaemon::kLogs:
      return OnLogs(session, message.logs(), effects);
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
  const auto found = daemons_.find(session);
  if (found == daemons_.end()) return;
  Known& known = known_[found->second.hello.name()];
  // A connection that did not outlive a pause of ours is made anew by a daemon that was not told to hurry.
  known.due = now + (now < awake_since_ + limits_.restart ? limits_.restart : limits_.comeback);
  known.away = "its connection closed";
  ForgetSession(session, effects);
}

void SchedulerState::ForgetSession(SessionId session, Effects& effects) {
  daemons_.erase(session);
  for (auto& [request, logs] : logs_) {
    for (const auto& [process, awaited] : logs.awaited) {
      if (awaited != session) continue;
      logs.reply.mutable_logs(process - logs.first)->set_text("(its daemon was lost)\n");
    }
    std::erase_if(logs.awaited, [session](const auto& entry) { return entry.second == session; });
  }
  TickLogs(absl::InfinitePast(), effects);
}

void SchedulerState::LoseWorkers(const std::string& daemon, absl::string_view reason, absl::Time now,
                                 Effects& effects) {
  Known& known = known_[daemon];
  known.due = absl::InfiniteFuture();
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
            absl::StrCat("daemon '", daemon, "' (pid ", known.stored.pid(), ") was lost: ", reason, "; it ran ",
                         ran.size() == 1 ? "worker " : "workers ", absl::StrJoin(ran, ", "), " of job ", number),
            now, effects);
  }
  PlaceQueued(now, effects);
}

bool SchedulerState::AwaitsDaemon(const Job& job) const {
  return std::any_of(job.workers.begin(), job.workers.end(), [this](const Worker& worker) {
    return !worker.stored.released() && !daemons_.contains(worker.session);
  });
}

const SchedulerState::Daemon* SchedulerState::FindDaemon(const std::string& name) const {
  for (const auto& [session, daemon] : daemons_) {
    if (daemon.hello.name() == name) return &daemon;
  }
  return nullptr;
}

absl::Status SchedulerState::Drain(const std::string& name, bool undo, absl::Time now, Effects& effects) {
  const auto found = known_.find(name);
  if (found == known_.end()) return absl::NotFoundError(absl::StrCat("there is no daemon '", name, "'"));
  found->second.stored.set_drained(!undo);
  effects.changed_daemons[name] = found->second.stored;
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
  for (pb::Node& node : Daemons()) {
    for (const int64_t job : jobs[node.name()]) node.add_jobs(job);
    *reply.add_nodes() = std::move(node);
  }
  return reply;
}

std::vector<pb::Node> SchedulerState::Daemons() const {
  std::vector<pb::Node> nodes;
  for (const auto& [name, known] : known_) {
    const Daemon* const daemon = FindDaemon(name);
    if (daemon == nullptr && !known.stored.drained() && known.due == absl::InfiniteFuture()) continue;  // it was lost
    pb::Node& node = nodes.emplace_back();
    node.set_name(name);
    node.set_drained(known.stored.drained());
    node.set_away(daemon == nullptr);
    if (daemon == nullptr) continue;
    node.set_host(daemon->hello.host());
    node.set_cpu_devices(daemon->hello.cpu_devices());
    node.set_cuda_devices(daemon->hello.cuda_devices());
    node.set_used_cpu(daemon->used_cpu);
    node.set_used_cuda(daemon->used_cuda);
    node.set_cores(daemon->hello.cores());
    node.set_memory_bytes(daemon->hello.memory_bytes());
    node.set_used_memory_bytes(daemon->used_bytes);
    node.set_cuda_device_memory_bytes(daemon->hello.cuda_device_memory_bytes());
    *node.mutable_links() = daemon->hello.links();
  }
  return nodes;
}

// --- Workers ---

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
  const auto daemon = daemons_.find(worker.session);
  if (daemon == daemons_.end()) return;
  daemon->second.used(job.cuda) -= job.status.devices_per_process();
  daemon->second.used_bytes -= worker.bytes;
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

// --- Logs ---

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
  LogsRequest& logs = logs_[request];
  logs.due = now + limits_.logs;
  logs.first = asked.process();
  for (int process = logs.first; process < (asked.has_process() ? logs.first + 1 : count); ++process) {
    pb::WorkerLog& log = *logs.reply.add_logs();
    log.set_process(process);
    log.set_daemon(workers[process].stored.daemon());
    if (!daemons_.contains(workers[process].session)) {
      log.set_text("(its daemon was lost)\n");
      continue;
    }
    logs.awaited[process] = workers[process].session;
    pb::ToDaemon message;
    message.mutable_logs()->set_request(request);
    message.mutable_logs()->set_job(number);
    message.mutable_logs()->set_process(process);
    if (asked.has_offset()) message.mutable_logs()->set_offset(asked.offset());
    effects.messages.emplace_back(workers[process].session, std::move(message));
  }
  TickLogs(now, effects);
  return absl::OkStatus();
}

void SchedulerState::OnLogs(SessionId session, const pb::LogsAnswer& answer, Effects& effects) {
  const auto found = logs_.find(answer.request());
  if (found == logs_.end()) return;  // it was answered without this part, which came too late
  const auto awaited = found->second.awaited.find(answer.log().process());
  if (awaited == found->second.awaited.end() || awaited->second != session) return;
  pb::WorkerLog& log = *found->second.reply.mutable_logs(awaited->first - found->second.first);
  log.set_text(answer.log().text());
  log.set_next_offset(answer.log().next_offset());
  found->second.awaited.erase(awaited);
  TickLogs(absl::InfinitePast(), effects);
}

void SchedulerState::TickLogs(absl::Time now, Effects& effects) {
  for (auto it = logs_.begin(); it != logs_.end();) {
    LogsRequest& logs = it->second;
    if (!logs.awaited.empty() && now < logs.due) {
      ++it;
      continue;
    }
    for (const auto& [process, session] : logs.awaited) {
      logs.reply.mutable_logs(process - logs.first)
          ->set_text(absl::StrCat("(its daemon did not answer within ", absl::FormatDuration(limits_.logs), ")\n"));
    }
    effects.logs.emplace_back(it->first, std::move(logs.reply));
    it = logs_.erase(it);
  }
}

// --- Waits ---

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

// --- Time ---

void SchedulerState::Oversleep(absl::Duration pause, absl::Time now) {
  awake_since_ = now;
  heard_ += pause;
  for (auto& [session, daemon] : daemons_) daemon.last_heard = std::min(now, daemon.last_heard + pause);
  for (auto& [name, known] : known_) known.due += pause;
  for (const auto& [number, job] : Live()) {
    job->due += pause;
    job->own_layout_until += pause;
    if (job->complaint) job->complaint->due += pause;
  }
  for (auto& [request, logs] : logs_) logs.due += pause;
  diagnoses_.Delay(pause);
}

absl::Duration SchedulerState::LeaseOf(const Daemon& daemon, absl::Time now) const {
  if (now - heard_ <= Hush() || daemon.hello.memory() == limits_.memory) return limits_.lease;
  return std::max(limits_.lease, limits_.deaf);
}

void SchedulerState::Tick(absl::Time now, Effects& effects) {
  if (now - last_tick_ > limits_.pause && last_tick_ != absl::InfinitePast()) Oversleep(now - last_tick_, now);
  last_tick_ = now;
  std::vector<std::pair<SessionId, std::string>> silent;
  for (const auto& [session, daemon] : daemons_) {
    const absl::Duration silence = now - daemon.last_heard, lease = LeaseOf(daemon, now);
    if (silence < lease) continue;
    silent.emplace_back(
        session, absl::StrCat("no heartbeat for ", absl::FormatDuration(absl::Trunc(silence, absl::Milliseconds(100))),
                              " (limit ", absl::FormatDuration(lease), ")"));
  }
  for (const auto& [session, reason] : silent) {
    const std::string name = daemons_.at(session).hello.name();
    effects.closed_sessions.emplace_back(session, absl::DeadlineExceededError(reason));
    ForgetSession(session, effects);
    LoseWorkers(name, reason, now, effects);
  }
  for (auto& [name, known] : known_) {
    if (known.due <= now) LoseWorkers(name, known.away, now, effects);
  }
  for (const auto& [number, job] : Live()) TickJob(*job, now, effects);
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
  if (Ended(job)) return StopWorkers(job, effects);  // finished, but some worker would not exit
  for (size_t process = 0; process < job.workers.size(); ++process) {
    if (!job.workers[process].stored.peer_address().empty()) continue;
    return FailJob(job, true,
                   absl::StrCat(NameOf(job, process), " was not ready within ", absl::FormatDuration(limits_.start)),
                   now, effects);
  }
}

}  // namespace oneflow
