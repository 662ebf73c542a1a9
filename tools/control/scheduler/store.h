// Jobs, their plans and their events on disk, so that a scheduler that dies loses none.
//
// One SQLite database in WAL mode (schema.h has its tables). What was written survives the death of any process at any
// time; what was written with `durable` survives a power failure too. Values are serialised messages of control.proto.
// Not thread-safe.
//
// A row that cannot be read, or says what no scheduler wrote, costs the one job that it is of: the job says so and has
// failed. All else goes on. A database that cannot be read or written at all is an error (Unavailable) of every call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/scheduler/state.h"
#include "tools/control/scheduler/thinning.h"

struct sqlite3;

namespace oneflow {

// How long ended jobs are kept, with their events, specs and plans: as long as both hold. Afterwards nothing says that
// they were, but for the newest of all jobs: its status stays, for its number must not be given again.
struct EndedJobsRule {
  int64_t jobs = 1000;                                 // only the last that ended
  absl::Duration age = absl::Seconds(30 * 24 * 3600);  // since their end
  absl::Duration every = absl::Minutes(1);             // how often it is looked for those that are past it
};

class Store {
 public:
  // Opens or creates the file. An older version is carried over. Unavailable naming `path` if that fails;
  // FailedPrecondition if it is of a newer version, or if another scheduler has it open. `vfs`: SQLite's name of a file
  // system, for tests; null: the system's.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path, const char* vfs = nullptr);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // In order of job number. Specs, without plans, are read only for jobs that have not ended. Of a job with a damaged
  // row `valid` is DataLoss; if it had ended, its status says so.
  absl::StatusOr<std::vector<StoredJob>> LoadJobs();
  // By name. Without one whose row is damaged: when it is back, it is another to the scheduler.
  absl::StatusOr<std::map<std::string, pb::StoredDaemon>> LoadDaemons();
  // What was submitted, without the plan. NotFound if it is not kept, DataLoss if it is damaged.
  absl::StatusOr<pb::JobSpec> LoadSpec(int64_t job);
  // NotFound if no job that is kept has this plan.
  absl::StatusOr<std::string> LoadPlan(const std::string& hash);

  // Writes all that `effects` has to be stored in one transaction. Unavailable, with nothing written, if that fails.
  absl::Status Apply(const Effects& effects, bool durable);

  // At most `limit` events of `job` from `from_sequence` on, of those that are kept. FailedPrecondition if none of the
  // job's are any longer. A notice stands in the place of one that is damaged.
  absl::StatusOr<std::vector<pb::JobEvent>> LoadEvents(int64_t job, int64_t from_sequence, int limit);

  // The first job after `after` that the rule does not keep; 0 if there is none.
  absl::StatusOr<int64_t> FindExpired(const EndedJobsRule& rule, absl::Time now, int64_t after = 0);
  // Deletes a part of an ended job, in a transaction that holds up nobody for long. Until all is deleted, FindExpired()
  // finds it again.
  absl::Status DeletePart(int64_t job);

  // A job that has had many events since it was last thinned; 0: none.
  int64_t FindGrown() const;
  // Deletes what is superfluous (thinning.h) of the job's events before the sequence `first_wanted`.
  absl::Status Thin(int64_t job, int64_t first_wanted);

 private:
  struct Growth {
    int64_t added = 0;  // events since the job was last thinned
    int64_t kept = 0;   // then
  };

  Store(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}

  absl::Status Execute(const char* sql);
  // Commits what `write` writes, or nothing.
  absl::Status Transact(absl::FunctionRef<absl::Status()> write);
  absl::Status WriteJobs(const Effects& effects);
  absl::Status WriteWorkers(const Effects& effects);
  absl::StatusOr<StoredJob> LoadJob(int64_t number, absl::string_view status, int64_t finished_us);
  // Those that are damaged count as gone: their daemon, which knows them, kills them. DataLoss if there are any.
  absl::Status LoadWorkers(int64_t job, std::vector<pb::StoredWorker>& workers);
  absl::StatusOr<int64_t> NextSequence(int64_t job);  // of its events that are kept
  absl::Status WriteEvents(const Effects& effects);
  absl::Status DeletePartOf(int64_t job);
  // The sequences of all events of the job in `thinning`; how many there are.
  absl::StatusOr<int64_t> ReadEvents(int64_t job, Thinning& thinning);
  absl::StatusOr<std::vector<std::string>> PlansOfNoOther(int64_t job);  // their hashes
  absl::Status Error(absl::string_view doing) const;

  const std::string path_;
  sqlite3* const db_;                 // owned
  std::map<int64_t, Growth> growth_;  // by job
};

}  // namespace oneflow
