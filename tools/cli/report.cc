#include <filesystem>
#include <iostream>

#include "tools/cli/commands.h"

namespace oneflow {

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  return absl::IsCancelled(status) ? 130 : 1;
}

int Report(const absl::Status& status) {
  if (!status.ok()) std::cerr << "oneflow: " << status.message() << std::endl;
  return ExitCode(status);
}

void PrintWarnings(const Job& job) {
  for (const std::string& remark : job.remarks) std::cerr << "note: " << remark << "\n";
  for (const std::string& warning : job.warnings) std::cerr << "warning: " << warning << "\n";
}

absl::Status ResumeAsAsked(const JobArguments& arguments, Job& job) {
  if (arguments.resume.empty()) return absl::OkStatus();
  if (!job.spec.has_checkpoint()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: ", job.config.Where("checkpoint"), " is missing: where are its checkpoints?"));
  }
  if (arguments.resume == "last") {
    job.spec.set_resume(true);
  } else {
    job.spec.set_resume_from(std::filesystem::absolute(arguments.resume).lexically_normal().string());
  }
  return absl::OkStatus();
}

}  // namespace oneflow
