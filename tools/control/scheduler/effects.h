// What an input to the scheduler's state machine brings about: what is to be stored, then what is to be said.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/control.pb.h"

namespace oneflow {

using SessionId = int64_t;  // one connection of a daemon; never reused

// A job that is queued: a new one, or one that had ended and whose spec may no longer be kept.
struct NewJob {
  int64_t job = 0;
  pb::JobSpec spec;                                       // without plans
  std::vector<std::shared_ptr<const std::string>> plans;  // as AcceptedSpec::plans
};

struct Effects {
  // To be stored in one transaction.
  std::vector<NewJob> new_jobs;
  std::vector<pb::JobStatus> changed_jobs;
  std::vector<std::pair<int64_t, pb::JobEvent>> events;
  std::map<std::pair<int64_t, int>, pb::StoredWorker> changed_workers;  // by job and process
  std::map<std::string, pb::StoredDaemon> changed_daemons;              // by name
  // Then to be done, in any order among sessions. A StartWorker lacks the plan, which the store has.
  std::vector<std::pair<SessionId, pb::ToDaemon>> messages;
  std::vector<std::pair<SessionId, absl::Status>> closed_sessions;  // already forgotten by the state
  std::vector<std::pair<int64_t, pb::LogsReply>> logs;              // by request
  std::vector<std::pair<int64_t, std::string>> diagnoses;           // by request
  std::map<SessionId, int64_t> acknowledged;  // up to which of its numbers a daemon need not repeat itself

  bool stores() const {
    return !new_jobs.empty() || !changed_jobs.empty() || !events.empty() || !changed_workers.empty() ||
           !changed_daemons.empty();
  }
  // Whether a loss of this by a power failure would leave a job in a state that it does not get out of; fetched values
  // alone are not worth waiting for the disk.
  bool durable() const { return !new_jobs.empty() || !changed_jobs.empty() || !changed_workers.empty(); }
  bool empty() const {
    return !stores() && messages.empty() && closed_sessions.empty() && logs.empty() && diagnoses.empty() &&
           acknowledged.empty();
  }
  // What happened after this.
  void Append(Effects later);
};

}  // namespace oneflow
