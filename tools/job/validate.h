// Whether a job config makes sense, field by field, before anything is built from it.
#pragma once

#include "tools/job/config.h"

namespace oneflow {

// InvalidArgument "job.pbtxt:12: train.batch_size: ..." for the first field, in the order of the file's messages, that
// is missing, out of range or at odds with another one; both values are named.
absl::Status ValidateConfig(const SourcedConfig& config);

}  // namespace oneflow
