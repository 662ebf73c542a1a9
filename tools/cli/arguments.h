// Arguments that several commands have, and the flags that they are given by.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "oneflow_core/status.h"
#include "tools/control/client.h"
#include "tools/job/config.h"

namespace oneflow {

// How a command reaches a running scheduler.
struct SchedulerArguments {
  std::string address;  // empty: of `run` and `generate`, an embedded cluster
  std::string tls;      // folder of our certificate; empty: plain text
};
// Where a scheduler is that nobody has named.
SchedulerArguments DefaultScheduler();
// With our certificate and token. Errors of LoadIdentity() and OwnToken().
absl::StatusOr<SchedulerAddress> AddressOf(const SchedulerArguments& scheduler);
// The same, and of Client::Connect().
absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const SchedulerArguments& scheduler,
                                                  absl::Duration patience = absl::ZeroDuration());

// An option that is another spelling of --set FIELD=VALUE.
struct FieldFlag {
  std::string flag, field, value;
};

// Arguments shared by all commands that take a job config.
struct JobArguments {
  std::string config;             // path
  std::string resume;             // "last": the last good checkpoint; or this one, or a job's folder; empty: none
  std::vector<std::string> sets;  // "train.steps=20", as given to --set
  std::vector<FieldFlag> fields;  // applied after `sets`

  // The config with all overrides applied. Errors of LoadConfig (tools/job/config.h); InvalidArgument if --set gives
  // the field of a flag another value.
  absl::StatusOr<SourcedConfig> Load() const;
};

// The flags. What they parse into outlives the app.

void AddFieldFlag(CLI::App& app, std::vector<FieldFlag>& fields, const std::string& flag, const std::string& field,
                  const std::string& help);
// The config, and --set.
void AddConfig(CLI::App& app, JobArguments& job);
// The same, and --cluster.
void AddJob(CLI::App& app, JobArguments& job);
// --resume, of commands that train.
void AddResume(CLI::App& app, JobArguments& job);
// The number of a job.
void AddJobNumber(CLI::App& app, int64_t& job);
// --tls, whose default is that of the environment.
CLI::Option* AddTls(CLI::App& app, std::string& folder);
// --scheduler and --tls.
void AddScheduler(CLI::App& app, SchedulerArguments& scheduler, const char* help = "address of the scheduler");
// --insecure, of what serves. REQUIRES: the command has --tls already.
void AddInsecure(CLI::App& app, bool& insecure);
void AddLostAfter(CLI::App& app, double& seconds, const char* help);
inline constexpr char kLostAfterHelp[] =
    "seconds of silence after which a process of the cluster is taken for dead while others run; default: 2.5, of a "
    "worker 2";
CLI::Option* AddPage(CLI::App& app, std::string& place);

inline constexpr int kMostDevices = 4096;  // of a job, and so of use on a machine
inline constexpr int kMostCores = 65'536;

}  // namespace oneflow
