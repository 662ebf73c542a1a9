// Questions to all workers of a job what they wait for, and the answers as they come in: a part of the scheduler's
// state machine, which sends and is told.
//
//   Begin ─► one Add per worker, or a reason why there is none ─► Take: the diagnosis of them all (actor/diagnosis.h)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/waits.pb.h"

namespace oneflow {

class Diagnoses {
 public:
  struct Finished {
    int64_t request = 0;
    int64_t job = 0;
    int stalled = -1;      // the process that said that nothing moves; -1: somebody has asked
    bool goes_on = false;  // that process has moved since; the text is of what it waited for
    std::string text;
  };

  // Asks workers, who are called so, by process, and have until `due`; of a stall with what a process said unasked.
  // REQUIRES: the number has not been used.
  void Begin(int64_t request, int64_t job, std::vector<std::string> workers, absl::Time due,
             std::optional<pb::ProcessWaits> stall = std::nullopt);
  // Whether a stall of the job is being looked into.
  bool IsStalled(int64_t job) const;
  // Dropped if nobody waits for it: it came too late, or twice.
  void Add(int64_t request, int64_t job, const pb::ProcessWaits& waits);
  // Nothing more is to be expected of the job's workers.
  void GiveUp(int64_t job, absl::string_view why);
  // Whoever is asked has so much longer.
  void Delay(absl::Duration pause);
  // Those with all their answers, or without the rest of them when they are due.
  std::vector<Finished> Take(absl::Time now);

 private:
  struct Diagnosis {
    int64_t job;
    std::optional<pb::ProcessWaits> stall;
    absl::Time due;
    std::map<int, std::string> awaited;  // who, by process
    std::vector<pb::ProcessWaits> answers;
  };
  static void Miss(Diagnosis& diagnosis, const std::string& why);
  static Finished Finish(int64_t request, const Diagnosis& diagnosis);

  std::map<int64_t, Diagnosis> open_;  // by request
};

}  // namespace oneflow
