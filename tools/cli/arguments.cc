#include "tools/cli/arguments.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/cli/usage.h"
#include "tools/control/scheduler/scheduler_main.h"
#include "tools/control/security/certificates.h"
#include "tools/control/security/tokens.h"

namespace oneflow {
namespace {

constexpr char kTlsHelp[] = "folder of certificates, as `certs init` makes them; default: ONEFLOW_TLS, or plain text";

}  // namespace

SchedulerArguments DefaultScheduler() { return {.address = SchedulerArgs().address}; }

absl::StatusOr<SchedulerAddress> AddressOf(const SchedulerArguments& scheduler) {
  OF_ASSIGN_OR_RETURN(TlsIdentity identity, LoadIdentityIfAny(scheduler.tls));
  OF_ASSIGN_OR_RETURN(std::string token, OwnToken());
  return SchedulerAddress(scheduler.address, std::move(identity), std::move(token));
}

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const SchedulerArguments& scheduler, absl::Duration patience) {
  OF_ASSIGN_OR_RETURN(const SchedulerAddress address, AddressOf(scheduler));
  return Client::Connect(address, absl::Seconds(5), patience);
}

absl::StatusOr<SourcedConfig> JobArguments::Load() const {
  OF_ASSIGN_OR_RETURN(SourcedConfig loaded, LoadConfig(config, sets));
  for (const FieldFlag& flag : fields) {
    const std::string assignment = absl::StrCat(flag.field, "=", flag.value),
                      place = absl::StrCat(flag.flag, " ", flag.value);
    for (const std::string& set : sets) {
      if (set == assignment || !absl::StartsWith(set, absl::StrCat(flag.field, "="))) continue;
      return absl::InvalidArgumentError(absl::StrCat(place, " and --set ", set, " contradict one another"));
    }
    OF_RETURN_IF_ERROR(ApplyOverride(assignment, loaded, place));
  }
  return loaded;
}

void AddFieldFlag(CLI::App& app, std::vector<FieldFlag>& fields, const std::string& flag, const std::string& field,
                  const std::string& help) {
  app.add_option_function<std::string>(
      flag,
      [&fields, flag, field](const std::string& value) {
        fields.push_back({flag, field, value});
      },
      help);
}

void AddConfig(CLI::App& app, JobArguments& job) {
  app.add_option("job", job.config, "job config (protobuf text)")->required();
  app.add_option("--set", job.sets,
                 "override a field of the config: path.to.field=value; may be repeated, and the last of a field counts")
      ->allow_extra_args(false);
}

void AddJob(CLI::App& app, JobArguments& job) {
  AddConfig(app, job);
  AddFieldFlag(app, job.fields, "--cluster", "cluster.processes", "number of processes");
}

void AddResume(CLI::App& app, JobArguments& job) {
  app.add_flag(
      "--resume{last}", job.resume,
      "go on from the last good checkpoint in checkpoint.path, or with =FOLDER from that one, or from the last "
      "of another job's folder");
}

// The environment's is a default, not an option given: what contradicts --tls does not contradict that.
CLI::Option* AddTls(CLI::App& app, std::string& folder) {
  if (const char* const usual = std::getenv("ONEFLOW_TLS"); usual != nullptr) folder = usual;
  return app.add_option("--tls", folder, kTlsHelp);
}

// Where the address has no default, a certificate is for nobody without it.
void AddScheduler(CLI::App& app, SchedulerArguments& scheduler, const char* help) {
  CLI::Option* const address = app.add_option("--scheduler", scheduler.address, help)->check(HostAndPort(false));
  if (!scheduler.address.empty()) address->capture_default_str();
  CLI::Option* const tls = AddTls(app, scheduler.tls);
  if (scheduler.address.empty()) tls->needs(address);
}

void AddJobNumber(CLI::App& app, int64_t& job) {
  app.add_option("job", job, "number of the job")->required()->check(WholeFrom(1));
}

void AddInsecure(CLI::App& app, bool& insecure) {
  app.add_flag("--insecure", insecure, "serve other machines in plain text: whoever reaches the port gives orders")
      ->excludes("--tls");
}

void AddLostAfter(CLI::App& app, double& seconds, const char* help) {
  app.add_option("--lost-after", seconds, help)->check(NumberIn(2, 86'400));
}

CLI::Option* AddPage(CLI::App& app, std::string& place) {
  return app.add_option("--page", place, "show what goes on to browsers at PORT of this machine, or HOST:PORT")
      ->check(PlaceToServe());
}

}  // namespace oneflow
