#include "tools/scheduler/store.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

constexpr int kSchemaVersion = 1;

constexpr char kSchema[] =
    "CREATE TABLE IF NOT EXISTS jobs (job INTEGER PRIMARY KEY, spec BLOB NOT NULL, status BLOB NOT NULL,"
    " next_sequence INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE IF NOT EXISTS events (job INTEGER NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL,"
    " PRIMARY KEY (job, sequence)) WITHOUT ROWID;";

// A prepared statement; finalised at the end of its scope.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr); }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // A statement that could not be prepared is null, which SQLite answers with SQLITE_MISUSE in every call.
  Statement& Bind(int index, int64_t value) {
    sqlite3_bind_int64(statement_, index, value);
    return *this;
  }
  Statement& Bind(int index, const std::string& blob) {
    sqlite3_bind_blob64(statement_, index, blob.data(), blob.size(), SQLITE_TRANSIENT);
    return *this;
  }
  int Step() { return sqlite3_step(statement_); }
  // Ready to be bound and stepped again.
  bool Run() {
    const bool done = Step() == SQLITE_DONE;
    sqlite3_reset(statement_);
    return done;
  }
  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  bool Parse(int column, google::protobuf::Message& message) {
    return message.ParseFromArray(sqlite3_column_blob(statement_, column), sqlite3_column_bytes(statement_, column));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path) {
  sqlite3* db = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  std::unique_ptr<Store> store(new Store(path, db));  // closes db also on errors
  if (opened != SQLITE_OK) return store->Error("open");
  // Locked for as long as it is open: two schedulers on one store would give the same job twice.
  const int locked =
      sqlite3_exec(db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; BEGIN EXCLUSIVE; COMMIT;", nullptr,
                   nullptr, nullptr);
  if (locked == SQLITE_BUSY) {
    return absl::FailedPreconditionError(absl::StrCat("store '", path, "': another scheduler has it open"));
  }
  if (locked != SQLITE_OK) return store->Error("lock");
  int version = 0;
  {
    Statement query(db, "PRAGMA user_version");
    if (query.Step() != SQLITE_ROW) return store->Error("read the version");
    version = query.Int(0);
  }
  if (version != 0 && version != kSchemaVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("store '", path, "': its version is ", version, "; this scheduler writes ", kSchemaVersion));
  }
  OF_RETURN_IF_ERROR(store->Execute(kSchema));
  OF_RETURN_IF_ERROR(store->Execute(absl::StrCat("PRAGMA user_version=", kSchemaVersion).c_str()));
  return store;
}

Store::~Store() { sqlite3_close_v2(db_); }

absl::StatusOr<std::vector<StoredJob>> Store::LoadJobs() {
  std::vector<StoredJob> jobs;
  Statement query(db_, "SELECT job, status, next_sequence FROM jobs ORDER BY job");
  int result;
  while ((result = query.Step()) == SQLITE_ROW) {
    StoredJob job;
    const int64_t number = query.Int(0);
    if (!query.Parse(1, job.status))
      return absl::DataLossError(absl::StrCat("store '", path_, "': job ", number, " cannot be read"));
    job.next_sequence = query.Int(2);
    if (job.status.state() == pb::QUEUED) {
      Statement spec(db_, "SELECT spec FROM jobs WHERE job = ?");
      spec.Bind(1, number);
      if (spec.Step() != SQLITE_ROW || !spec.Parse(0, job.spec)) {
        return absl::DataLossError(absl::StrCat("store '", path_, "': the spec of job ", number, " cannot be read"));
      }
    }
    jobs.push_back(std::move(job));
  }
  if (result != SQLITE_DONE) return Error("read jobs");
  return jobs;
}

absl::Status Store::Apply(const Effects& effects, bool durable) {
  if (!effects.stores()) return absl::OkStatus();
  // NORMAL leaves the write-ahead log to the operating system, which outlives us; FULL waits for the disk.
  OF_RETURN_IF_ERROR(Execute(durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL"));
  OF_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status written = WriteAll(effects);
  if (written.ok()) written = Execute("COMMIT");
  if (!written.ok()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  return written;
}

absl::Status Store::WriteAll(const Effects& effects) {
  Statement new_job(db_, "INSERT INTO jobs (job, spec, status) VALUES (?, ?, x'')");
  for (const auto& [job, spec] : effects.new_jobs) {
    if (!new_job.Bind(1, job).Bind(2, spec.SerializeAsString()).Run()) return Error("add a job");
  }
  Statement change(db_, "UPDATE jobs SET status = ? WHERE job = ?");
  for (const pb::JobStatus& status : effects.changed_jobs) {
    if (!change.Bind(1, status.SerializeAsString()).Bind(2, status.job()).Run()) return Error("change a job");
  }
  Statement add_event(db_, "INSERT INTO events (job, sequence, event) VALUES (?, ?, ?)");
  Statement count(db_, "UPDATE jobs SET next_sequence = ? WHERE job = ?");
  for (const auto& [job, event] : effects.events) {
    if (!add_event.Bind(1, job).Bind(2, event.sequence()).Bind(3, event.SerializeAsString()).Run() ||
        !count.Bind(1, event.sequence() + 1).Bind(2, job).Run()) {
      return Error("add an event");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<pb::JobEvent>> Store::LoadEvents(int64_t job, int64_t from_sequence, int limit) {
  std::vector<pb::JobEvent> events;
  Statement query(db_, "SELECT event FROM events WHERE job = ? AND sequence >= ? ORDER BY sequence LIMIT ?");
  query.Bind(1, job).Bind(2, from_sequence).Bind(3, limit);
  int result;
  while ((result = query.Step()) == SQLITE_ROW) {
    if (!query.Parse(0, events.emplace_back())) {
      return absl::DataLossError(absl::StrCat("store '", path_, "': event ", from_sequence + events.size() - 1,
                                              " of job ", job, " cannot be read"));
    }
  }
  if (result != SQLITE_DONE) return Error("read events");
  return events;
}

absl::Status Store::Execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return Error(sql);
}

absl::Status Store::Error(absl::string_view doing) const {
  return absl::UnavailableError(absl::StrCat("store '", path_, "': cannot ", doing, ": ", sqlite3_errmsg(db_)));
}

}  // namespace oneflow
