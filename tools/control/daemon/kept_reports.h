// What a daemon has to say to its scheduler: reports, which are numbered and kept until the scheduler has stored them,
// and what matters only while the session lasts.
//
//   Add ──► 7 8 9 ──Next──► the session's writer          Stored(8) ──► 9 is kept
//           a session breaks, the next begins: 9 is said again, then what has come since
//
// What is kept is bounded: who wants to add more waits for room, so that workers are held up rather than forgotten.
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace oneflow {

class KeptReports {
 public:
  explicit KeptReports(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Keeps a report, whatever the room. Its number.
  int64_t Add(pb::FromDaemon report);
  // Whether there is room for more, within `timeout`.
  bool AwaitRoom(absl::Duration timeout);
  // The scheduler has all up to this number.
  void Stored(int64_t number);

  // Of what is kept.
  size_t num_bytes();

  // From now on Next() gives all that is kept, from the first on.
  void BeginSession();
  // Next() gives nothing more until the next session.
  void EndSession();
  bool session_ended();
  // Said in this session or never; dropped if there is none.
  void AddForSession(pb::FromDaemon message);
  // What is to be said next; nothing after `timeout`, or at the session's end.
  std::optional<pb::FromDaemon> Next(absl::Duration timeout);

 private:
  bool HasNext() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return next_ < kept_.size() || !for_session_.empty(); }

  const size_t most_bytes_;
  absl::Mutex mu_;
  std::deque<pb::FromDaemon> kept_ ABSL_GUARDED_BY(mu_);         // by number, without gaps
  std::deque<pb::FromDaemon> for_session_ ABSL_GUARDED_BY(mu_);  // come before what is kept
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;                         // of kept_, in this session
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;                        // of kept_
  int64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  bool in_session_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace oneflow
