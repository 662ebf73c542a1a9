#include "tools/control/cluster/embedded.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "tools/control/process/log_tail.h"
#include "tools/control/process/ready_pipe.h"
#include "tools/control/process/visible_devices.h"

namespace oneflow {
namespace {

constexpr absl::Duration kReady = absl::Seconds(30);  // a machine busy with a build is slow
constexpr absl::Duration kGrace = absl::Seconds(3);   // a daemon asked to stop gives its workers no more than a second
constexpr absl::Duration kKillLimit = absl::Seconds(5);
constexpr int kShownLines = 10;

// What the i-th daemon offers: all are on this machine, and no device is two daemons'.
std::vector<int> DevicesOf(int daemon, int devices_per_daemon) {
  std::vector<int> devices(devices_per_daemon);
  std::iota(devices.begin(), devices.end(), daemon * devices_per_daemon);
  return devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::Start(const EmbeddedOptions& options) {
  std::unique_ptr<EmbeddedCluster> cluster(new EmbeddedCluster);
  cluster->work_dir_ = options.work_dir;
  {
    absl::MutexLock lock(&cluster->mu_);
    cluster->replacements_ = options.replacements;
  }
  if (options.work_dir.empty()) {
    OF_ASSIGN_OR_RETURN(cluster->temporary_, TempDir::Make("oneflow"));
    cluster->work_dir_ = cluster->temporary_->path();
  }
  cluster->address_ = options.scheduler;
  if (options.scheduler.empty()) OF_RETURN_IF_ERROR(cluster->LaunchScheduler(options));
  for (int i = 0; i < options.daemons; ++i) OF_RETURN_IF_ERROR(cluster->LaunchDaemon(options, i));
  for (int i = 0; i < options.daemons; ++i) {
    OF_RETURN_IF_ERROR(cluster->AwaitReady(cluster->first_daemon_ + i).status());
  }
  return cluster;
}

absl::Status EmbeddedCluster::LaunchScheduler(const EmbeddedOptions& options) {
  first_daemon_ = 1;
  std::vector<std::string> arguments = {"scheduler", absl::StrCat("--address=", options.listen),
                                        absl::StrCat("--db=", work_dir_, "/jobs.db")};
  if (!options.page.empty()) {
    arguments.push_back(absl::StrCat("--page=", options.page));
    arguments.push_back("--allow-path=/");  // of one user, who asks for it
  }
  OF_RETURN_IF_ERROR(Launch(options, "scheduler", std::move(arguments)));
  OF_ASSIGN_OR_RETURN(const std::string addresses, AwaitReady(0));
  std::tie(address_, page_) = std::pair<std::string, std::string>(absl::StrSplit(addresses, absl::MaxSplits(' ', 1)));
  return absl::OkStatus();
}

absl::Status EmbeddedCluster::LaunchDaemon(const EmbeddedOptions& options, int index) {
  const std::string name = absl::StrCat("d", options.first + index);
  const bool cuda = options.device == "cuda";
  std::vector<std::string> environment;
  if (cuda) environment.push_back(VisibleDevices(DevicesOf(index, options.devices_per_daemon)));
  return Launch(options, name,
                {"daemon", absl::StrCat("--scheduler=", address_), absl::StrCat("--name=", name),
                 absl::StrCat("--cpu-devices=", cuda ? 0 : options.devices_per_daemon),
                 absl::StrCat("--cuda-devices=", cuda ? options.devices_per_daemon : 0),
                 absl::StrCat("--cores=", options.cores_per_daemon), absl::StrCat("--peer-host=", options.peer_host),
                 absl::StrCat("--work-dir=", work_dir_, "/", name), "--allow-path=/", "--allow-plugin=/", "--one-job"},
                std::move(environment));
}

EmbeddedCluster::~EmbeddedCluster() { Stop(); }

absl::Status EmbeddedCluster::Launch(const EmbeddedOptions& options, const std::string& name,
                                     std::vector<std::string> arguments, std::vector<std::string> environment) {
  std::error_code error;
  std::filesystem::create_directories(work_dir_, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make '", work_dir_, "': ", error.message()));
  OF_ASSIGN_OR_RETURN(std::unique_ptr<ReadyPipe> pipe, ReadyPipe::Make());
  ChildOptions child;
  child.executable = options.executable;
  child.arguments = std::move(arguments);
  child.environment = std::move(environment);
  child.environment.push_back(absl::StrCat("ONEFLOW_TLS=", options.tls));
  child.arguments.insert(child.arguments.begin(), "oneflow");
  if (options.parent_only) child.arguments.push_back("--parent-only");
  if (options.lost_after > 0) child.arguments.push_back(absl::StrCat("--lost-after=", options.lost_after));
  if (options.insecure) child.arguments.push_back("--insecure");
  child.log_path = absl::StrCat(work_dir_, "/", name, ".log");
  absl::MutexLock lock(&mu_);
  const size_t number = names_.size();
  names_.push_back(name);
  options_.push_back(child);
  child.arguments.push_back("--ready-fd=3");
  child.passed_fd = pipe->write_fd();
  ready_.push_back(std::move(pipe));
  OF_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> process,
                      ChildProcess::Start(std::move(child), [this, number](ChildExit) { Replace(number); }));
  children_.push_back(std::move(process));
  return absl::OkStatus();
}

// The scheduler alone has what must not be lost, and an address that others know.
void EmbeddedCluster::Replace(size_t child) {
  absl::MutexLock lock(&mu_);
  if (child < first_daemon_ || stopping_ || replacements_ == 0) return;
  --replacements_;
  absl::StatusOr<std::unique_ptr<ChildProcess>> process =
      ChildProcess::Start(options_[child], [this, child](ChildExit) { Replace(child); });
  if (!process.ok()) {
    LOG(ERROR) << "'" << names_[child] << "' of the embedded cluster died: " << process.status().message();
    return;
  }
  dead_.push_back(std::exchange(children_[child], *std::move(process)));
}

absl::StatusOr<std::string> EmbeddedCluster::AwaitReady(size_t child) {
  absl::StatusOr<std::string> line = ready_[child]->Await(kReady);
  if (line.ok()) return line;
  const std::string log = ReadTail(absl::StrCat(work_dir_, "/", names_[child], ".log"), 4 << 10);
  return absl::Status(line.status().code(),
                      absl::StrCat("'", names_[child], "' of the embedded cluster: ", line.status().message(),
                                   log.empty() ? "" : "; it wrote:\n", LastLines(log, kShownLines)));
}

void EmbeddedCluster::Stop() {
  std::vector<std::unique_ptr<ChildProcess>> children, dead;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    children = std::exchange(children_, {});
    dead = std::exchange(dead_, {});
  }
  // Daemons first: a scheduler that went before them would leave them to complain about it.
  for (size_t i = first_daemon_; i < children.size(); ++i) children[i]->Stop(kGrace);
  for (size_t i = first_daemon_; i < children.size(); ++i) children[i]->WaitForExit(kGrace + kKillLimit);
  for (size_t i = 0; i < std::min(first_daemon_, children.size()); ++i) {
    children[i]->Stop(kGrace);
    children[i]->WaitForExit(kGrace + kKillLimit);
  }
  children.clear();
  dead.clear();  // their threads may be in Replace()
  temporary_.reset();
}

}  // namespace oneflow
