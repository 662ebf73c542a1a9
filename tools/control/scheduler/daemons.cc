#include "tools/control/scheduler/daemons.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {

void Daemons::Restore(std::map<std::string, pb::StoredDaemon> stored) {
  for (auto& [name, daemon] : stored) known_[name].stored = std::move(daemon);
}

void Daemons::AwaitAfterRestart(const std::string& name, absl::Time now) {
  Known& known = known_[name];
  known.due = now + limits_.restart;
  known.away = absl::StrCat("it did not come back within ", absl::FormatDuration(limits_.restart),
                            " of the scheduler's restart");
}

absl::StatusOr<std::optional<SessionId>> Daemons::FormerSession(const pb::DaemonHello& hello) const {
  for (const auto& [session, other] : connected_) {
    if (other.hello.name() != hello.name()) continue;
    if (other.hello.incarnation() == hello.incarnation()) return session;
    return absl::AlreadyExistsError(absl::StrCat("the name '", hello.name(), "' is taken by the daemon with pid ",
                                                 other.hello.pid(), " on host '", other.hello.host(), "'"));
  }
  return std::nullopt;
}

std::string Daemons::WhyLost(const pb::DaemonHello& hello) const {
  const auto found = known_.find(hello.name());
  const uint64_t known = found == known_.end() ? 0 : found->second.stored.incarnation();
  if (known == hello.incarnation()) return "";
  return absl::StrCat(known == 0 ? "the store no longer says which process it was" : "it was restarted", " (pid ",
                      hello.pid(), ")");
}

void Daemons::Enter(SessionId session, const pb::DaemonHello& hello, absl::Time now, Effects& effects) {
  Known& known = known_[hello.name()];
  if (known.stored.incarnation() != hello.incarnation()) {
    known.stored.set_incarnation(hello.incarnation());
    known.stored.set_last_number(0);
  }
  known.stored.set_pid(hello.pid());
  known.due = absl::InfiniteFuture();
  effects.changed_daemons[hello.name()] = known.stored;
  Daemon& daemon = connected_[session] = Daemon{.hello = hello, .last_heard = now};
  daemon.hello.clear_workers();
  heard_ = now;
}

void Daemons::SetAway(SessionId session, absl::Time now) {
  Known& known = known_[connected_.at(session).hello.name()];
  // A connection that did not outlive a pause of ours is made anew by a daemon that was not told to hurry.
  known.due = now + (now < awake_since_ + limits_.restart ? limits_.restart : limits_.comeback);
  known.away = "its connection closed";
}

void Daemons::Hear(SessionId session, absl::Time now) {
  // The first that is heard after all were silent: it may be a moment ahead of the others.
  if (now - heard_ > Hush()) {
    for (auto& [id, daemon] : connected_) daemon.last_heard = now;
  }
  connected_.at(session).last_heard = heard_ = now;
}

bool Daemons::Counts(SessionId session, int64_t number, Effects& effects) {
  if (number <= 0) return true;
  const std::string& name = connected_.at(session).hello.name();
  pb::StoredDaemon& stored = known_[name].stored;
  effects.acknowledged[session] = number;
  if (number <= stored.last_number()) return false;
  stored.set_last_number(number);
  effects.changed_daemons[name] = stored;
  return true;
}

absl::Status Daemons::Drain(const std::string& name, bool undo, Effects& effects) {
  const auto found = known_.find(name);
  if (found == known_.end()) return absl::NotFoundError(absl::StrCat("there is no daemon '", name, "'"));
  found->second.stored.set_drained(!undo);
  effects.changed_daemons[name] = found->second.stored;
  return absl::OkStatus();
}

const Daemons::Daemon* Daemons::Find(const std::string& name) const {
  for (const auto& [session, daemon] : connected_) {
    if (daemon.hello.name() == name) return &daemon;
  }
  return nullptr;
}

int64_t Daemons::pid(const std::string& name) const {
  const auto found = known_.find(name);
  return found == known_.end() ? 0 : found->second.stored.pid();
}

int Daemons::num_drained() const {
  return static_cast<int>(std::count_if(connected_.begin(), connected_.end(),
                                        [this](const auto& entry) { return IsDrained(entry.second); }));
}

std::vector<pb::Node> Daemons::Nodes() const {
  std::vector<pb::Node> nodes;
  for (const auto& [name, known] : known_) {
    const Daemon* const daemon = Find(name);
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

Cluster Daemons::MakeCluster(bool cuda) const {
  using Host = std::pair<std::string, std::string>;  // name, and whose memory its processes can map
  std::map<std::pair<Host, std::string>, SessionId> daemons;
  for (const auto& [session, daemon] : connected_) {
    if (IsDrained(daemon)) continue;
    daemons[{{daemon.hello.host(), daemon.hello.memory()}, daemon.hello.name()}] = session;
  }
  Cluster cluster;
  std::map<size_t, int64_t> used_bytes;  // by machine
  const Host* host = nullptr;
  for (const auto& [name, session] : daemons) {
    const Daemon& daemon = connected_.at(session);
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

void Daemons::Take(SessionId session, bool cuda, int devices, int64_t bytes) {
  Daemon& daemon = connected_.at(session);
  daemon.used(cuda) += devices;
  daemon.used_bytes += bytes;
}

void Daemons::GiveBack(SessionId session, bool cuda, int devices, int64_t bytes) {
  const auto daemon = connected_.find(session);
  if (daemon == connected_.end()) return;
  daemon->second.used(cuda) -= devices;
  daemon->second.used_bytes -= bytes;
}

void Daemons::Oversleep(absl::Duration pause, absl::Time now) {
  awake_since_ = now;
  heard_ += pause;
  for (auto& [session, daemon] : connected_) daemon.last_heard = std::min(now, daemon.last_heard + pause);
  for (auto& [name, known] : known_) known.due += pause;
}

absl::Duration Daemons::LeaseOf(const Daemon& daemon, absl::Time now) const {
  if (now - heard_ <= Hush() || daemon.hello.memory() == limits_.memory) return limits_.lease;
  return std::max(limits_.lease, limits_.deaf);
}

std::vector<std::pair<SessionId, std::string>> Daemons::Silent(absl::Time now) const {
  std::vector<std::pair<SessionId, std::string>> silent;
  for (const auto& [session, daemon] : connected_) {
    const absl::Duration silence = now - daemon.last_heard, lease = LeaseOf(daemon, now);
    if (silence < lease) continue;
    silent.emplace_back(
        session, absl::StrCat("no heartbeat for ", absl::FormatDuration(absl::Trunc(silence, absl::Milliseconds(100))),
                              " (limit ", absl::FormatDuration(lease), ")"));
  }
  return silent;
}

std::vector<std::pair<std::string, std::string>> Daemons::Overdue(absl::Time now) const {
  std::vector<std::pair<std::string, std::string>> overdue;
  for (const auto& [name, known] : known_) {
    if (known.due <= now) overdue.emplace_back(name, known.away);
  }
  return overdue;
}

}  // namespace oneflow
