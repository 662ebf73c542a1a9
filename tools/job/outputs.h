// What a job or a command writes, held against what it reads and against each other, before anything is written.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/status.h"
#include "tools/job/config.h"

namespace oneflow {

// A file or folder, by the field or option that names it.
struct NamedPath {
  std::string what;  // "save_weights", "--metrics"
  std::string path;
};

// Of a config whose paths are absolute; none is empty. The config's own file is an input.
std::vector<NamedPath> OutputsOf(const SourcedConfig& config);
std::vector<NamedPath> InputsOf(const SourcedConfig& config);

// InvalidArgument that names both if two outputs are one file, or one is an input too, whatever links, "./" or second
// names lead to it. Devices and pipes may take several outputs.
absl::Status CheckApart(absl::Span<const NamedPath> outputs, absl::Span<const NamedPath> inputs);

// InvalidArgument, saying why, if no file can come to lie where `path` leads: what is there is neither a file nor, if
// `may_be_stream`, a device or pipe; or there is no folder for it, or none that may be written to.
absl::Status CheckWritable(const std::string& path, bool may_be_stream);

}  // namespace oneflow
