// `oneflow manifest`.
#include <iostream>
#include <regex>

#include "absl/strings/str_cat.h"
#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/cli/usage.h"
#include "tools/control/launch/manifest.h"
#include "tools/job/cluster.h"
#include "tools/job/read_text.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

struct ManifestArguments {
  ManifestOptions options;  // without the job's text
  std::string job;          // job config; empty: a cluster that stays
  bool insecure = false;    // pods may reach one another in plain text
};

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

absl::Status PrintManifest(const ManifestArguments& arguments) {
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

RunFunction DeclareManifest(CLI::App& app, ParsedArguments& arguments) {
  ManifestArguments& manifest = arguments.New<ManifestArguments>();
  app.add_option("job", manifest.job, "job config (protobuf text): pods for this job alone");
  app.add_option("--image", manifest.options.image, "container image that has `oneflow`")->required()->check(Utf8());
  app.add_option("--name", manifest.options.name, "of what is made, or its beginning")->capture_default_str();
  app.add_option("--namespace", manifest.options.space, "default: where it is applied");
  app.add_option("--tasks", manifest.options.tasks, "pods of the job; default: its processes");
  app.add_option("--cpus", manifest.options.cpus, "of a pod; 0: no limit")->check(CLI::Range(0, 100'000));
  app.add_option("--gpus", manifest.options.gpus, "of a pod")->check(CLI::Range(0, 1024));
  app.add_option("--memory", manifest.options.memory, "of a pod, as 16Gi; default: no limit");
  app.add_option("--claim", manifest.options.claim, "PersistentVolumeClaim that all pods see under /data")
      ->check(Utf8());
  app.add_option("--tls-secret", manifest.options.tls, "Secret that holds a folder of certificates")->check(Utf8());
  app.add_flag("--insecure", manifest.insecure,
               "pods reach one another in plain text: whoever reaches a port gives "
               "orders");
  return [&manifest] { return Report(PrintManifest(manifest)); };
}

}  // namespace

std::vector<Command> ManifestCommands() {
  return {
      {"manifest", "print what Kubernetes is to be told for a cluster that stays, or for one job", DeclareManifest}};
}

}  // namespace oneflow
