// The end of a log file, which is where it says what went wrong; and how a log stays of bounded size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct LogPart {
  std::string text;
  int64_t next_offset = 0;  // of the byte behind it in the file
};

// At most `max_bytes` of a file from `offset` on, or, without one, what ReadTail() gives; nothing if it cannot be read.
LogPart ReadPart(const std::string& path, std::optional<int64_t> offset, int64_t max_bytes);

// At most the last `max_bytes` of a file, from the start of a line; empty if it cannot be read.
std::string ReadTail(const std::string& path, int64_t max_bytes);

// Cuts lines out of the middle of a file of more than `most_bytes`, which others may be appending to: of its beginning
// and of its end up to a quarter of that each stays, with a line between them that says how many bytes are gone. What
// comes while it cuts may be lost too. Unavailable if the file cannot be read or written; no error if it is not there.
absl::Status ShortenLog(const std::string& path, int64_t most_bytes);

// The last `count` lines of `text`.
absl::string_view LastLines(absl::string_view text, int count);

}  // namespace oneflow
