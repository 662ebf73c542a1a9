#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Makes the file at `path` hold `contents`, whatever it held. Unavailable if it cannot, with the system's reason;
// `what` says there what the file is.
absl::Status WriteFile(absl::string_view what, const std::string& path, absl::string_view contents);

}  // namespace oneflow
