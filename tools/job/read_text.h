#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The text in the file at `path`, without the byte-order mark that some editors put before UTF-8. `what` says in errors
// what the file is. NotFound if there is none; InvalidArgument if it is a folder, cannot be read, or is in UTF-16 or
// UTF-32.
absl::StatusOr<std::string> ReadText(absl::string_view what, const std::string& path);

}  // namespace oneflow
