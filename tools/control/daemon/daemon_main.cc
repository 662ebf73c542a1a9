#include "tools/control/daemon/daemon_main.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "glog/logging.h"
#include "tools/control/daemon/daemon.h"
#include "tools/control/process/memory_space.h"
#include "tools/control/process/ready_pipe.h"
#include "tools/control/process/stop_signals.h"
#include "tools/control/process/temp_dir.h"
#include "tools/control/rpc/rpc.h"
#include "tools/control/security/certificates.h"

namespace oneflow {
namespace {

int Fail(const absl::Status& status) {
  std::cerr << "oneflow: " << status.message() << std::endl;
  return 1;
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot make work directory '", path, "': ", error.message()));
}

// This thread, and all that comes of it: sessions, workers. These map one another's memory, and no other daemon's
// workers map it.
absl::Status Confine(const std::string& tls, DaemonOptions& options) {
  if (options.allowed.everything()) return absl::OkStatus();
  if (!tls.empty()) OF_RETURN_IF_ERROR_AT(options.allowed.CheckSecret(tls, options.work_dir), "--tls");
  const absl::Status confined = options.allowed.ConfineThread(options.work_dir);
  if (confined.ok()) options.memory = OwnMemorySpace();
  if (!absl::IsUnimplemented(confined)) return confined;
  LOG(WARNING) << "--allow-path: " << confined.message()
               << ": paths of jobs are looked at before their workers start, and links that change later are followed";
  return absl::OkStatus();
}

// What is not told is found.
absl::Status FillDevices(const DaemonArgs& args, DaemonOptions& options) {
  options.machine = LookAtMachine();
  const absl::StatusOr<CudaDevices> cuda = FindCudaDevices();
  if (!cuda.ok()) LOG(WARNING) << "cuda devices are not looked at: " << cuda.status().message();
  options.cpu_devices = args.cpu_devices.value_or(options.machine.memory_nodes);
  options.cuda_devices = args.cuda_devices.value_or(cuda.ok() ? cuda->count : 0);
  if (cuda.ok()) options.cuda_device_memory_bytes = cuda->memory_bytes;
  if (args.one_job) options.machine.memory_bytes = options.cuda_device_memory_bytes = 0;
  if (options.cpu_devices > 0 || options.cuda_devices > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--cpu-devices is 0 and ", args.cuda_devices.has_value() ? "--cuda-devices is 0" : "no cuda device was found",
      ": there is nothing to offer"));
}

}  // namespace

namespace {

absl::StatusOr<AllowedPaths> FilesOfJobs(const DaemonArgs& args) {
  if (args.allow_paths.empty() && args.tls.empty() && IsLoopback(args.scheduler)) return AllowedPaths();
  if (args.allow_paths == std::vector<std::string>{"/"}) return AllowedPaths();
  return AllowedPaths::Beneath(args.allow_paths);
}

}  // namespace

absl::StatusOr<AllowedPaths> DaemonPaths(const DaemonArgs& args) {
  OF_ASSIGN_OR_RETURN_AT(AllowedPaths allowed, FilesOfJobs(args), "--allow-path");
  OF_RETURN_IF_ERROR_AT(allowed.AllowPlugins(args.allow_plugins), "--allow-plugin");
  return allowed;
}

int DaemonMain(const DaemonArgs& args) {
  // Signals are blocked before other threads start, and lead to the daemon once it stands.
  absl::Notification standing;
  std::unique_ptr<Daemon> daemon;
  StopSignals signals(
      [&](int) {
        standing.WaitForNotification();
        if (daemon != nullptr) daemon->Stop();
      },
      args.parent_only ? SignalSender::kParent : SignalSender::kAnyone);
  std::unique_ptr<TempDir> temporary;
  const auto start = [&]() -> absl::Status {
    DaemonOptions options;
    options.scheduler = args.scheduler;
    options.host = HostName();
    options.memory = MemorySpace();
    options.name = args.name.empty() ? options.host : args.name;
    OF_RETURN_IF_ERROR(FillDevices(args, options));
    options.cores = args.cores > 0 ? args.cores : static_cast<int>(std::thread::hardware_concurrency());
    options.work_dir = args.work_dir;
    options.peer_host = args.peer_host;
    OF_ASSIGN_OR_RETURN(options.identity, LoadIdentityIfAny(args.tls, Holder::kCluster));
    options.insecure = args.insecure;
    OF_ASSIGN_OR_RETURN(options.allowed, DaemonPaths(args));
    options.parent_only = args.parent_only;
    options.metrics = args.metrics;
    if (args.lost_after > 0) options.silence = absl::Seconds(args.lost_after);
    if (options.work_dir.empty()) {
      OF_ASSIGN_OR_RETURN(temporary, TempDir::Make("oneflow-daemon"));
      options.work_dir = temporary->path();
    }
    OF_RETURN_IF_ERROR(MakeDirectory(options.work_dir));
    // Before there are threads but that of the signals, which opens nothing.
    OF_RETURN_IF_ERROR(Confine(args.tls, options));
    options.on_registered = [fd = args.ready_fd]() mutable {
      if (absl::Status told = TellReady(fd, "registered"); !told.ok()) LOG(WARNING) << told.message();
      fd = -1;  // it is told once
    };
    OF_ASSIGN_OR_RETURN(daemon, Daemon::Start(std::move(options)));
    return absl::OkStatus();
  };
  const absl::Status started = start();
  standing.Notify();
  if (!started.ok()) return Fail(started);
  const absl::Status ended = daemon->Run();
  return ended.ok() ? 0 : Fail(ended);
}

}  // namespace oneflow
