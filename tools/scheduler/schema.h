// The tables of the scheduler's store, and how those of an older version become those of this one.
//
//   version 2:   jobs    job | status | next_sequence | finished_us        the row that changes: some hundred bytes
//                specs   job | plan_hash | spec                            without the plan; written once
//                plans   hash                    plan_pieces  hash, piece | bytes      a plan once, whoever asks for it
//                workers job, process | worker           daemons  name | daemon
//                events  job, sequence | event
//   version 1:   jobs    job | spec | status | next_sequence               every event rewrote the row with the plan
//                events  the same
#pragma once

#include <sqlite3.h>

#include "oneflow_core/status.h"

namespace oneflow {

inline constexpr int kSchemaVersion = 2;

// Makes the tables, or carries an older version over, in one transaction. FailedPrecondition if the file is of a
// version that this program does not know, DataLoss if something in it cannot be read, Unavailable if SQLite fails. The
// caller adds where.
absl::Status PrepareSchema(sqlite3* db);

// Writes a plan in pieces unless the store has it. `plan` may be as large as memory allows, a piece is small enough to
// be read and written without holding up others. REQUIRES: a transaction.
absl::Status InsertPlan(sqlite3* db, absl::string_view hash, absl::string_view plan);

// What SQLite says went wrong last: "cannot add a job: database is locked".
absl::Status SqliteError(sqlite3* db, absl::string_view doing);

}  // namespace oneflow
