// Questions to daemons for what workers wrote, and the answers as they come in: a part of the scheduler's state
// machine, which sends and is told.
//
//   Begin ─► one Answer per worker, or a reason why there is none ─► Take: the logs of them all
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "tools/control/scheduler/effects.h"

namespace oneflow {

class LogQueries {
 public:
  struct Worker {
    std::string daemon;
    std::optional<SessionId> session;  // of its daemon; none: it is not there
  };

  // `limit`: for daemons to answer.
  explicit LogQueries(absl::Duration limit) : limit_(limit) {}

  // Asks for the logs of these workers, whose processes are numbered from `first` on. REQUIRES: the number has not been
  // used.
  void Begin(int64_t request, int first, const std::vector<Worker>& workers, absl::Time now);
  // Dropped if nobody waits for it: it came too late, or from another session than the one that was asked.
  void Answer(SessionId session, const pb::LogsAnswer& answer);
  // Nothing more is to be expected of this session.
  void Lose(SessionId session);
  // Whoever is asked has so much longer.
  void Delay(absl::Duration pause);
  // Those with all their answers, or without the rest of them when they are due; by request.
  std::vector<std::pair<int64_t, pb::LogsReply>> Take(absl::Time now);

 private:
  struct Query {
    int first = 0;                     // process of the reply's first log
    pb::LogsReply reply;               // by process
    std::map<int, SessionId> awaited;  // by process
    absl::Time due;
  };

  absl::Duration limit_;
  std::map<int64_t, Query> open_;  // by request
};

}  // namespace oneflow
