#include "tools/control/scheduler/schema.h"

#include "absl/strings/str_cat.h"
#include "proto/control.pb.h"
#include "tools/control/scheduler/spec.h"
#include "tools/control/scheduler/statement.h"

namespace oneflow {
namespace {

// A mebibyte: some milliseconds of a disk, and few enough pieces for the largest plan.
constexpr size_t kPieceBytes = size_t{1} << 20;

constexpr char kTables[] =
    "CREATE TABLE jobs (job INTEGER PRIMARY KEY, status BLOB NOT NULL, next_sequence INTEGER NOT NULL DEFAULT 0,"
    " finished_us INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX jobs_finished ON jobs (finished_us, job);"
    "CREATE TABLE specs (job INTEGER PRIMARY KEY, spec BLOB NOT NULL);"
    "CREATE TABLE workers (job INTEGER NOT NULL, process INTEGER NOT NULL, worker BLOB NOT NULL,"
    " PRIMARY KEY (job, process)) WITHOUT ROWID;"
    "CREATE TABLE daemons (name BLOB PRIMARY KEY, daemon BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE plans (hash BLOB PRIMARY KEY) WITHOUT ROWID;"
    "CREATE TABLE plan_pieces (hash BLOB NOT NULL, piece INTEGER NOT NULL, bytes BLOB NOT NULL,"
    " PRIMARY KEY (hash, piece));";
constexpr char kJobPlans[] =
    "CREATE TABLE job_plans (job INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (job, hash)) WITHOUT ROWID;"
    "CREATE INDEX job_plans_hash ON job_plans (hash);";
constexpr char kEvents[] =
    "CREATE TABLE events (job INTEGER NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL,"
    " PRIMARY KEY (job, sequence)) WITHOUT ROWID;";

absl::Status Execute(sqlite3* db, const char* sql) {
  return sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? absl::OkStatus() : SqliteError(db, sql);
}

absl::StatusOr<int> Version(sqlite3* db) {
  Statement query(db, "PRAGMA user_version");
  if (query.Step() != SQLITE_ROW) return SqliteError(db, "read the version");
  return static_cast<int>(query.Int(0));
}

// One job of version 1: what changes, what does not, and its plan.
absl::Status CarryOver(sqlite3* db, int64_t job, pb::JobSpec spec, const pb::JobStatus& status, int64_t next_sequence) {
  OF_RETURN_IF_ERROR(InsertPlan(db, spec.plan_hash(), spec.plan()));
  spec.clear_plan();
  Statement add_job(db, "INSERT INTO jobs (job, status, next_sequence, finished_us) VALUES (?, ?, ?, ?)");
  if (!add_job.Bind(1, job)
           .Bind(2, status.SerializeAsString())
           .Bind(3, next_sequence)
           .Bind(4, status.finished_us())
           .Run()) {
    return SqliteError(db, absl::StrCat("carry job ", job, " over"));
  }
  return ReplaceSpec(db, job, spec);
}

absl::Status MigrateFrom1(sqlite3* db) {
  OF_RETURN_IF_ERROR(Execute(db, "ALTER TABLE jobs RENAME TO jobs_1"));
  OF_RETURN_IF_ERROR(Execute(db, kTables));
  OF_RETURN_IF_ERROR(Execute(db, kJobPlans));
  {
    Statement old(db, "SELECT job, spec, status, next_sequence FROM jobs_1 ORDER BY job");
    int result;
    while ((result = old.Step()) == SQLITE_ROW) {
      pb::JobSpec spec;
      pb::JobStatus status;
      if (!old.Parse(1, spec) || !old.Parse(2, status)) {
        return absl::DataLossError(absl::StrCat("job ", old.Int(0), " of version 1 cannot be read"));
      }
      OF_RETURN_IF_ERROR(CarryOver(db, old.Int(0), std::move(spec), status, old.Int(3)));
    }
    if (result != SQLITE_DONE) return SqliteError(db, "read the jobs of version 1");
  }
  return Execute(db, "DROP TABLE jobs_1");
}

absl::Status MigrateFrom2(sqlite3* db) {
  OF_RETURN_IF_ERROR(Execute(db, kJobPlans));
  return Execute(db,
                 "INSERT INTO job_plans (job, hash) SELECT job, plan_hash FROM specs;"
                 "DROP INDEX specs_plan;"
                 "ALTER TABLE specs DROP COLUMN plan_hash");
}

absl::Status Prepare(sqlite3* db, int version) {
  switch (version) {
    case 0:
      OF_RETURN_IF_ERROR(Execute(db, kTables));
      OF_RETURN_IF_ERROR(Execute(db, kJobPlans));
      OF_RETURN_IF_ERROR(Execute(db, kEvents));
      break;
    case 1:
      OF_RETURN_IF_ERROR(MigrateFrom1(db));
      break;
    case 2:
      OF_RETURN_IF_ERROR(MigrateFrom2(db));
      break;
    default:
      return absl::FailedPreconditionError(
          absl::StrCat("its version is ", version, "; this scheduler writes ", kSchemaVersion));
  }
  return Execute(db, absl::StrCat("PRAGMA user_version=", kSchemaVersion).c_str());
}

}  // namespace

absl::Status PrepareSchema(sqlite3* db) {
  OF_ASSIGN_OR_RETURN(const int version, Version(db));
  if (version == kSchemaVersion) return absl::OkStatus();
  OF_RETURN_IF_ERROR(Execute(db, "PRAGMA synchronous=FULL"));
  OF_RETURN_IF_ERROR(Execute(db, "BEGIN IMMEDIATE"));
  absl::Status prepared = Prepare(db, version);
  if (prepared.ok()) prepared = Execute(db, "COMMIT");
  if (!prepared.ok()) sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
  return prepared;
}

absl::Status InsertPlan(sqlite3* db, absl::string_view hash, absl::string_view plan) {
  Statement known(db, "SELECT 1 FROM plans WHERE hash = ?");
  if (known.Bind(1, hash).Step() == SQLITE_ROW) return absl::OkStatus();
  Statement add(db, "INSERT INTO plans (hash) VALUES (?)");
  if (!add.Bind(1, hash).Run()) return SqliteError(db, "add a plan");
  Statement add_piece(db, "INSERT INTO plan_pieces (hash, piece, bytes) VALUES (?, ?, ?)");
  for (int64_t piece = 0; !plan.empty(); ++piece) {
    if (!add_piece.Bind(1, hash).Bind(2, piece).Bind(3, plan.substr(0, kPieceBytes)).Run()) {
      return SqliteError(db, "add a piece of a plan");
    }
    plan.remove_prefix(std::min(plan.size(), kPieceBytes));
  }
  return absl::OkStatus();
}

absl::Status ReplaceSpec(sqlite3* db, int64_t job, const pb::JobSpec& spec) {
  Statement replace(db, "INSERT OR REPLACE INTO specs (job, spec) VALUES (?, ?)");
  Statement add_plan(db, "INSERT OR IGNORE INTO job_plans (job, hash) VALUES (?, ?)");
  bool written = replace.Bind(1, job).Bind(2, spec.SerializeAsString()).Run();
  for (const std::string& hash : PlanHashes(spec)) written = written && add_plan.Bind(1, job).Bind(2, hash).Run();
  return written ? absl::OkStatus() : SqliteError(db, absl::StrCat("write the spec of job ", job));
}

absl::Status SqliteError(sqlite3* db, absl::string_view doing) {
  return absl::UnavailableError(absl::StrCat("cannot ", doing, ": ", sqlite3_errmsg(db)));
}

}  // namespace oneflow
