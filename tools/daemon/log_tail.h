// The end of a log file, which is where it says what went wrong.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace oneflow {

// At most the last `max_bytes` of a file, from the start of a line; empty if it cannot be read.
std::string ReadTail(const std::string& path, int64_t max_bytes);

// The last `count` lines of `text`.
absl::string_view LastLines(absl::string_view text, int count);

}  // namespace oneflow
