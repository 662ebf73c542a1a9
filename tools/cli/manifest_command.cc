// `oneflow manifest`.
#include <iostream>
#include <regex>

#include "absl/strings/str_cat.h"
#include "tools/cli/commands.h"
#include "tools/job/cluster.h"
#include "tools/job/read_text.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

// What Kubernetes takes for a name that is one of a host too.
absl::Status CheckName(const std::string& flag, const std::string& name) {
  static const std::regex& label = *new std::regex("[a-z]([-a-z0-9]{0,50}[a-z0-9])?");
  if (name.empty() || std::regex_match(name, label)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is '", name, "'; it may have up to 52 of a-z, 0-9 and '-', from a letter on"));
}

absl::Status CheckOptions(const ManifestArguments& arguments) {
  const ManifestOptions& options = arguments.options;
  OF_RETURN_IF_ERROR(CheckName("--name", options.name));
  OF_RETURN_IF_ERROR(CheckName("--namespace", options.space));
  static const std::regex& quantity = *new std::regex("[1-9][0-9]{0,11}(Ki|Mi|Gi|Ti|k|M|G|T)?");
  if (!options.memory.empty() && !std::regex_match(options.memory, quantity)) {
    return absl::InvalidArgumentError(absl::StrCat("--memory is '", options.memory, "', which is no amount as 16Gi"));
  }
  if (options.tasks != 0 && arguments.job.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tasks is ", options.tasks, ", but no job is named whose pods these would be"));
  }
  if (options.tls.empty() == arguments.insecure) return absl::OkStatus();
  return absl::InvalidArgumentError(
      options.tls.empty() ? "pods reach one another over the network: name a --tls-secret, or say --insecure"
                          : "--tls-secret and --insecure contradict one another");
}

absl::StatusOr<std::string> ReadJob(const std::string& path) {
  OF_ASSIGN_OR_RETURN(std::string text, ReadText("job config", path));
  if (!IsUtf8(text)) return absl::InvalidArgumentError(absl::StrCat("job config '", path, "': is not UTF-8"));
  if (!text.empty()) return text;
  return absl::InvalidArgumentError(absl::StrCat("job config '", path, "': is empty"));
}

}  // namespace

absl::Status ManifestCommand(const ManifestArguments& arguments) {
  OF_RETURN_IF_ERROR(CheckOptions(arguments));
  ManifestOptions options = arguments.options;
  if (!arguments.job.empty()) {
    OF_ASSIGN_OR_RETURN(const SourcedConfig config, LoadConfig(arguments.job, {}));
    OF_ASSIGN_OR_RETURN(options.job, ReadJob(arguments.job));
    if (options.tasks == 0) options.tasks = static_cast<int>(NumProcesses(config.config));
  }
  if (options.tasks < 0 || options.tasks > 10'000) {
    return absl::InvalidArgumentError(absl::StrCat("--tasks is ", options.tasks, "; it may be from 1 to 10000"));
  }
  std::cout << Yaml(Manifest(options));
  return absl::OkStatus();
}

}  // namespace oneflow
