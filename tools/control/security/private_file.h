// Files that only their owner may read: keys, tokens.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The file holds `contents` and has this mode, or what it held before: whoever reads it never sees a part. Unavailable,
// with the system's reason, if it cannot be written.
absl::Status ReplaceFile(const std::string& path, absl::string_view contents, int mode);

// What the file holds. NotFound if it is not there, Unavailable if it cannot be read, FailedPrecondition if others than
// its owner may read or write it.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path);
// The same of a file that anyone may read.
absl::StatusOr<std::string> ReadPublicFile(const std::string& path);

}  // namespace oneflow
