// Jobs of a scheduler (state.h) that wait, and where they are placed.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tools/control/scheduler/state.h"

namespace oneflow {
namespace {

// Jobs behind the first that waits; the lock is held while they are looked at.
constexpr int kLookBehind = 64;

}  // namespace

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
      spares = SparesBehind(*first);
    } else {
      if (++behind > kLookBehind) return;
      if (TryPlace(*job, FreeBehind(*first, spares, *job, clusters), clusters, now, effects))
        spares = SparesBehind(*first);
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
  SetLayout(job, now >= job.own_layout_until ? BestLayout(job, clusters) : 0);
}

int SchedulerState::BestLayout(const Job& job, Clusters& clusters) const {
  for (int layout = 0; layout < static_cast<int>(job.gangs.size()); ++layout) {
    if (CouldHold(job, job.gangs[layout], clusters)) return layout;
  }
  return 0;
}

bool SchedulerState::MayGrow(const Job& job) const {
  return job.spec.restart().grow() && job.status.state() == pb::RUNNING && job.status.fallback() > 0 && !job.stopping &&
         !job.complaint && !job.status.asked_to_stop() && !job.status.growing() && !AwaitsDaemon(job);
}

std::vector<Machine> SchedulerState::FreeWithout(const Job& job, Clusters& clusters) const {
  const Cluster& cluster = ClusterFor(job, clusters);
  std::vector<Machine> free = cluster.free;
  for (const Worker& worker : job.workers) {
    for (size_t machine = 0; machine < free.size() && !worker.stored.released(); ++machine) {
      const std::vector<SessionId>& sessions = cluster.session[machine];
      const auto found = std::find(sessions.begin(), sessions.end(), worker.session);
      if (found == sessions.end()) continue;
      free[machine].devices[found - sessions.begin()] += job.status.devices_per_process();
      if (free[machine].memory_bytes != kUnknownBytes) free[machine].memory_bytes += worker.bytes;
    }
  }
  return free;
}

// What it would take is free, so that it does not wait where it could have gone on; nor does anybody else.
void SchedulerState::Grow(Job& job, absl::Time now, Effects& effects) {
  if (!MayGrow(job) || num_queued_ > 0) return;
  Clusters clusters;
  const int layout = BestLayout(job, clusters);
  if (layout >= job.status.fallback()) return;
  const Gang& gang = job.gangs[layout];
  if (PlaceGang(FreeWithout(job, clusters), gang).empty()) return;
  if (limits_.devices_per_user > 0) {
    const std::vector<int>& processes = gang.processes_of_host;
    const int wanted = gang.devices_per_process * std::accumulate(processes.begin(), processes.end(), 0),
              has = job.status.processes() * job.status.devices_per_process();
    if (DevicesOf(job.status.user(), job.cuda) - has + wanted > limits_.devices_per_user) return;
  }
  pb::JobEvent event;
  event.set_time_us(absl::ToUnixMicros(now));
  event.mutable_notice()->set_text(
      absl::StrCat("there are devices for ", layout == 0 ? job.spec.layout() : job.spec.fallbacks(layout - 1).layout(),
                   ": ends to go on with these"));
  AddEvent(job, std::move(event), effects);
  job.status.set_growing(true);
  effects.changed_jobs.push_back(job.status);
  TellWorkers(job, StopMessage(), effects);
}

void SchedulerState::SetLayout(Job& job, int fallback) {
  const pb::Fallback* const layout = fallback == 0 ? nullptr : &job.spec.fallbacks(fallback - 1);
  job.status.set_fallback(fallback);
  job.status.set_processes(layout == nullptr ? job.spec.processes() : layout->processes());
  job.status.set_devices_per_process(layout == nullptr ? job.spec.devices_per_process()
                                                       : layout->devices_per_process());
}

Spares SchedulerState::SparesBehind(const Job& first) const {
  std::map<SessionId, HeldDevices> held;
  for (const auto& [session, daemon] : daemons_.connected()) {
    held[session] = {.offered = daemon.offered(first.cuda), .free = daemon.free(first.cuda)};
  }
  for (const auto& [number, job] : Live()) {
    if (job->cuda != first.cuda) continue;
    for (const Worker& worker : job->workers) {
      const auto found = worker.stored.released() ? held.end() : held.find(worker.session);
      if (found != held.end()) found->second.held.push_back(job->status.devices_per_process());
    }
  }
  return SparesOf(held, first.gang().devices_per_process);
}

std::vector<Machine> SchedulerState::FreeBehind(const Job& first, const Spares& spares, const Job& job,
                                                Clusters& clusters) const {
  return oneflow::FreeBehind(ClusterFor(job, clusters), ClusterFor(first, clusters).offered, first.gang(),
                             job.cuda == first.cuda ? &spares : nullptr);
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

const Cluster& SchedulerState::ClusterFor(const Job& job, Clusters& clusters) const {
  std::optional<Cluster>& cluster = clusters[job.cuda];
  if (!cluster) cluster = daemons_.MakeCluster(job.cuda);
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
    Take(job, process, sessions[process]);
    job.workers[process].session = sessions[process];
    job.workers[process].stored.set_daemon(daemons_.At(sessions[process]).hello.name());
    MarkChanged(job, process, effects);
    SendStart(job, process, effects);
  }
}

void SchedulerState::Take(Job& job, int process, SessionId session) {
  // Of a job that has ended nobody knows any more what its plan takes; its workers are about to exit.
  int64_t& bytes = job.workers[process].bytes;
  bytes = job.gangs.empty() ? 0 : job.gang().process_bytes;
  daemons_.Take(session, job.cuda, job.status.devices_per_process(), bytes);
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
  const int drained = daemons_.num_drained();
  const std::string beside = drained == 0 ? "" : absl::StrCat(" (drained: ", drained, ")");
  const Cluster& cluster = ClusterFor(job, clusters);
  const std::string device = job.cuda ? "cuda" : "cpu";
  if (BeyondQuota(job)) {
    return absl::StrCat("a user may have ", limits_.devices_per_user, " ", device, " devices; '", job.status.user(),
                        "' has ", DevicesOf(job.status.user(), job.cuda), ", and the job takes ",
                        job.status.processes() * job.status.devices_per_process());
  }
  if (drained > 0 && drained == static_cast<int>(daemons_.connected().size())) {
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

}  // namespace oneflow
