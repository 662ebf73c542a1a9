// The end of a log file, which is where it says what went wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace oneflow {

struct LogPart {
  std::string text;
  int64_t next_offset = 0;  // of the byte behind it in the file
};

// At most `max_bytes` of a file from `offset` on, or, without one, what ReadTail() gives; nothing if it cannot be read.
LogPart ReadPart(const std::string& path, std::optional<int64_t> offset, int64_t max_bytes);

// At most the last `max_bytes` of a file, from the start of a line; empty if it cannot be read.
std::string ReadTail(const std::string& path, int64_t max_bytes);

// The last `count` lines of `text`.
absl::string_view LastLines(absl::string_view text, int count);

}  // namespace oneflow
