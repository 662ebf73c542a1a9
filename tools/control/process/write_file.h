#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Writes `contents` where `path` leads, as WriteOutput() of actor/output_file.h does: a file holds them all or is as it
// was, links are followed, devices and pipes are written to. Its errors; `what` says there what the file is.
absl::Status WriteFile(absl::string_view what, const std::string& path, absl::string_view contents);

}  // namespace oneflow
