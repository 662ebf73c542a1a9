// The tables of the scheduler's store, and how those of an older version become those of this one.
//
//   version 3:   jobs    job | status | next_sequence | finished_us        the row that changes: some hundred bytes
//                specs   job | spec                                        without plans; written once
//                job_plans  job, hash                                      of its own layout and of its fallbacks
//                plans   hash                    plan_pieces  hash, piece | bytes      a plan once, whoever asks for it
//                workers job, process | worker           daemons  name | daemon
//                events  job, sequence | event
//   version 2:   specs   job | plan_hash | spec                            and no job_plans
//   version 1:   jobs    job | spec | status | next_sequence               every event rewrote the row with the plan
//                events  the same
#pragma once

#include <sqlite3.h>

#include <cstdint>

#include "oneflow_core/status.h"
#include "proto/control.pb.h"

namespace oneflow {

inline constexpr int kSchemaVersion = 3;

// Makes the tables, or carries an older version over, in one transaction. FailedPrecondition if the file is of a
// version that this program does not know, DataLoss if something in it cannot be read, Unavailable if SQLite fails. The
// caller adds where.
absl::Status PrepareSchema(sqlite3* db);

// Writes a plan in pieces unless the store has it. `plan` may be as large as memory allows, a piece is small enough to
// be read and written without holding up others. REQUIRES: a transaction.
absl::Status InsertPlan(sqlite3* db, absl::string_view hash, absl::string_view plan);

// Writes what a job was submitted with, and whose plans it has. REQUIRES: a transaction, and its plans inserted.
absl::Status ReplaceSpec(sqlite3* db, int64_t job, const pb::JobSpec& spec);

// What SQLite says went wrong last: "cannot add a job: database is locked".
absl::Status SqliteError(sqlite3* db, absl::string_view doing);

}  // namespace oneflow
