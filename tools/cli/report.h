// What commands tell people of how they ended, and look at before they begin.
#pragma once

#include "absl/status/status.h"
#include "tools/cli/arguments.h"
#include "tools/job/job.h"

namespace oneflow {

// 0 done, 1 failed, 130 interrupted.
int ExitCode(const absl::Status& status);
// Prints an error as the one line that a user reads. The exit code.
int Report(const absl::Status& status);
// What compiling the job had to tell the user, on the stream of errors.
void PrintWarnings(const Job& job);

// Of a compiled job: InvalidArgument if it has nothing to do. A warning in the job if it looks at weights that nobody
// trained.
absl::Status CheckWork(Job& job);
// Says in the job from where it goes on. InvalidArgument if it shall, and has no checkpoints; errors of
// FindCheckpoint() for the folder that is named.
absl::Status ResumeAsAsked(const JobArguments& arguments, Job& job);

}  // namespace oneflow
