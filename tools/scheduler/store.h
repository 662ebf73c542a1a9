// Jobs and their events on disk, so that a scheduler that dies loses none.
//
//   jobs    job | spec | status | next_sequence          events    job, sequence | event
//
// One SQLite database in WAL mode. What was written survives the death of any process at any time; what was written
// with `durable` survives a power failure too. Values are serialised messages of control.proto. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/scheduler/state.h"

struct sqlite3;

namespace oneflow {

class Store {
 public:
  // Opens or creates the file. Unavailable naming `path` if that fails; FailedPrecondition if it is of another version,
  // or if another scheduler has it open.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // In order of job number. The spec is read only for jobs in the queue.
  absl::StatusOr<std::vector<StoredJob>> LoadJobs();

  // Writes new jobs, changed jobs and events in one transaction. Unavailable, with nothing written, if that fails.
  absl::Status Apply(const Effects& effects, bool durable);

  // At most `limit` events of `job` from `from_sequence` on.
  absl::StatusOr<std::vector<pb::JobEvent>> LoadEvents(int64_t job, int64_t from_sequence, int limit);

 private:
  Store(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}

  absl::Status Execute(const char* sql);
  absl::Status WriteAll(const Effects& effects);
  absl::Status Error(absl::string_view doing) const;

  const std::string path_;
  sqlite3* const db_;  // owned
};

}  // namespace oneflow
