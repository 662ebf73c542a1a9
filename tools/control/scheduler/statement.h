// One prepared SQL statement; finalised at the end of its scope.
//
//   Statement change(db, "UPDATE jobs SET status = ? WHERE job = ?");
//   if (!change.Bind(1, bytes).Bind(2, job).Run()) return Error();
//
// A statement that could not be prepared is null, which SQLite answers with SQLITE_MISUSE in every call: one check, of
// what Step() or Run() says, is enough.
#pragma once

#include <google/protobuf/message.h>
#include <sqlite3.h>

#include <cstdint>

#include "absl/strings/string_view.h"

namespace oneflow {

class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr); }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Parameters are numbered from 1.
  Statement& Bind(int index, int64_t value) {
    sqlite3_bind_int64(statement_, index, value);
    return *this;
  }
  // A blob, which is not copied: it must live until the statement has run.
  Statement& Bind(int index, absl::string_view blob) {
    sqlite3_bind_blob64(statement_, index, blob.data() == nullptr ? "" : blob.data(), blob.size(), SQLITE_STATIC);
    return *this;
  }
  // SQLITE_ROW, SQLITE_DONE or an error.
  int Step() { return sqlite3_step(statement_); }
  // For a statement that yields no rows. It may be bound and run again; false on errors.
  bool Run() {
    const bool done = Step() == SQLITE_DONE;
    sqlite3_reset(statement_);
    return done;
  }

  // Columns of the current row, numbered from 0. A blob is valid until the next step.
  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  absl::string_view Blob(int column) {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return {data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
  }
  bool Parse(int column, google::protobuf::Message& message) {
    const absl::string_view blob = Blob(column);
    return message.ParseFromArray(blob.data(), static_cast<int>(blob.size()));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace oneflow
