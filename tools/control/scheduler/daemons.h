// The daemons of a cluster: those that are connected, with what they offer and what of it is taken, and those that are
// away or drained. A part of the scheduler's state machine, which is told what happens and when.
//
//   Enter ─► connected ──Leave, SetAway─► away ──Enter within `comeback`─► connected
//                │                          │
//                └─ silent for its lease    └─ overdue: what it ran is lost
//
// A daemon goes by its name. Another process with the name of one that is away has lost what that one ran.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "tools/control/scheduler/effects.h"
#include "tools/control/scheduler/limits.h"
#include "tools/control/scheduler/waiting_line.h"

namespace oneflow {

class Daemons {
 public:
  struct Daemon {
    pb::DaemonHello hello;  // without workers
    absl::Time last_heard;
    int used_cpu = 0, used_cuda = 0;
    int64_t used_bytes = 0;  // of its machine's memory, by the plans of what runs here

    int offered(bool cuda) const { return cuda ? hello.cuda_devices() : hello.cpu_devices(); }
    int& used(bool cuda) { return cuda ? used_cuda : used_cpu; }
    int free(bool cuda) const { return offered(cuda) - (cuda ? used_cuda : used_cpu); }
  };

  explicit Daemons(SchedulerLimits limits) : limits_(std::move(limits)) {}

  // What a former scheduler knew of them.
  void Restore(std::map<std::string, pb::StoredDaemon> stored);
  // It ran something when the former scheduler ended: it has `restart` to come back.
  void AwaitAfterRestart(const std::string& name, absl::Time now);

  // --- Sessions. A session that is not named here is of no daemon that is connected. ---

  // The session that the process which says this hello had before, if any. AlreadyExists if another live process has
  // its name.
  absl::StatusOr<std::optional<SessionId>> FormerSession(const pb::DaemonHello& hello) const;
  // Why what a daemon of this name ran is lost though its name is back: another process says hello. Empty: it is the
  // same.
  std::string WhyLost(const pb::DaemonHello& hello) const;
  // It is there. REQUIRES: no session has its name.
  void Enter(SessionId session, const pb::DaemonHello& hello, absl::Time now, Effects& effects);
  void Leave(SessionId session) { connected_.erase(session); }
  // Its connection closed: it has some time to come back. REQUIRES: it is there.
  void SetAway(SessionId session, absl::Time now);
  // Whatever became of it, it is not awaited.
  void AwaitNoLonger(const std::string& name) { known_[name].due = absl::InfiniteFuture(); }

  // It said something. REQUIRES: it is there.
  void Hear(SessionId session, absl::Time now);
  // Whether a report of this number is a new one; 0: it has none. REQUIRES: it is there.
  bool Counts(SessionId session, int64_t number, Effects& effects);

  // NotFound.
  absl::Status Drain(const std::string& name, bool undo, Effects& effects);

  // --- What they have ---

  bool Has(SessionId session) const { return connected_.contains(session); }
  const Daemon& At(SessionId session) const { return connected_.at(session); }  // REQUIRES: Has(session)
  const std::map<SessionId, Daemon>& connected() const { return connected_; }
  int64_t pid(const std::string& name) const;  // of the last process of that name; 0: there was none
  int num_drained() const;                     // of those that are connected
  // By name: those that are there, and those that are away or drained. Without their jobs.
  std::vector<pb::Node> Nodes() const;
  // Without those that are drained. By name, so that the same cluster places the same job the same way whoever
  // registered first.
  Cluster MakeCluster(bool cuda) const;
  // A process takes devices and memory of a daemon that is there, and gives them back, if it still is.
  void Take(SessionId session, bool cuda, int devices, int64_t bytes);
  void GiveBack(SessionId session, bool cuda, int devices, int64_t bytes);

  // --- Time ---

  // The scheduler has not run for so long: limits end as much later.
  void Oversleep(absl::Duration pause, absl::Time now);
  // Sessions that have been silent for longer than they may, and for how long, in a sentence.
  std::vector<std::pair<SessionId, std::string>> Silent(absl::Time now) const;
  // Names of those that are away for longer than they may, and why they are, in a sentence.
  std::vector<std::pair<std::string, std::string>> Overdue(absl::Time now) const;

 private:
  // What is known of a daemon also while it is not there.
  struct Known {
    pb::StoredDaemon stored;
    absl::Time due = absl::InfiniteFuture();  // when it is lost, while it is away
    std::string away;                         // why it is lost then: "its connection closed"
  };

  const Daemon* Find(const std::string& name) const;  // null: it is not there
  bool IsDrained(const Daemon& daemon) const { return known_.at(daemon.hello.name()).stored.drained(); }
  // How long this daemon may be silent: longer while nobody is heard, unless it is on our machine.
  absl::Duration LeaseOf(const Daemon& daemon, absl::Time now) const;
  // For how long the scheduler may by chance hear nobody.
  absl::Duration Hush() const { return 2 * limits_.heartbeat; }

  SchedulerLimits limits_;
  std::map<SessionId, Daemon> connected_;
  std::map<std::string, Known> known_;             // by name
  absl::Time heard_ = absl::InfinitePast();        // when any daemon was last
  absl::Time awake_since_ = absl::InfinitePast();  // when the scheduler last woke from a pause
};

}  // namespace oneflow
