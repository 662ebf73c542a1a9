#include "tools/cli/report.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "tools/job/visible_text.h"
#include "tools/study/checkpoint/checkpoint_tools.h"

namespace oneflow {

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  return absl::IsCancelled(status) ? 130 : 1;
}

int Report(const absl::Status& status) {
  if (!status.ok()) std::cerr << "oneflow: " << VisibleText(status.message()) << std::endl;
  return ExitCode(status);
}

void PrintWarnings(const Job& job) {
  for (const std::string& remark : job.remarks) std::cerr << "note: " << remark << "\n";
  for (const std::string& warning : job.warnings) std::cerr << "warning: " << warning << "\n";
}

namespace {

// Whether something is trained, evaluated, generated or saved.
bool HasWork(const pb::JobSpec& spec) {
  return std::any_of(spec.phases().begin(), spec.phases().end(),
                     [](const pb::Phase& phase) { return phase.has_train() || phase.has_run() || phase.has_save(); });
}

bool OnlyRuns(const pb::JobSpec& spec) {
  bool runs = false;
  for (const pb::Phase& phase : spec.phases()) {
    if (phase.has_train()) return false;
    runs |= phase.has_run();
  }
  return runs;
}

}  // namespace

absl::Status CheckWork(Job& job) {
  if (!HasWork(job.spec)) {
    const bool is_said = job.config.places.count("train.steps") > 0;
    return absl::InvalidArgumentError(
        absl::StrCat(job.config.Where("train.steps"), ": ", is_said ? "is 0" : "is missing",
                     ", and there is nothing else to do: no evaluate, generate, save_weights or save_initial_weights"));
  }
  if (OnlyRuns(job.spec) && job.spec.weights().empty()) {
    job.warnings.push_back(absl::StrCat(job.config.Where("train.steps"),
                                        ": nothing is trained and no weights are given (weights): what follows is of "
                                        "initial weights, drawn at random"));
  }
  return absl::OkStatus();
}

absl::Status ResumeAsAsked(const JobArguments& arguments, Job& job) {
  if (arguments.resume.empty()) return absl::OkStatus();
  if (!job.spec.has_checkpoint()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: ", job.config.Where("checkpoint"), " is missing: where are its checkpoints?"));
  }
  if (arguments.resume == "last") {
    job.spec.set_resume(true);
    return absl::OkStatus();
  }
  const std::string where = VisibleText(absl::StrCat("--resume=", arguments.resume));
  if (!IsUtf8(arguments.resume)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": is not UTF-8, as all paths of a job must be"));
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(arguments.resume, job.spec.checkpoint().path(), ignored)) {
    job.spec.set_resume(true);  // its own folder, whose last good one is meant
    return absl::OkStatus();
  }
  OF_ASSIGN_OR_RETURN_AT(const std::string from, FindCheckpoint(arguments.resume), where);
  job.spec.set_resume_from(std::filesystem::absolute(from, ignored).lexically_normal().string());
  return absl::OkStatus();
}

}  // namespace oneflow
