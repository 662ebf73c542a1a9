#include "tools/control/scheduler/scheduler_main.h"

#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "glog/logging.h"
#include "tools/control/process/memory_space.h"
#include "tools/control/process/ready_pipe.h"
#include "tools/control/process/stop_signals.h"
#include "tools/control/rpc/rpc.h"
#include "tools/control/scheduler/service.h"
#include "tools/control/security/certificates.h"

namespace oneflow {
namespace {

int Refuse(const absl::Status& status) {
  std::cerr << "oneflow: " << status.message() << std::endl;
  return 1;
}

// Where only this machine's users submit jobs the page shows what they name.
absl::StatusOr<AllowedPaths> PagePaths(const SchedulerArgs& args) {
  const bool ours = args.tls.empty() && args.tokens.empty() && IsLoopback(args.address);
  if (args.allow_paths.empty() && ours) return AllowedPaths();
  if (args.allow_paths == std::vector<std::string>{"/"}) return AllowedPaths();
  return AllowedPaths::Beneath(args.allow_paths);
}

}  // namespace

int SchedulerMain(const SchedulerArgs& args, PageServer serve_page) {
  // Signals are blocked before the server's threads start, and lead to it once it stands.
  absl::Notification standing;
  std::unique_ptr<SchedulerServer> server;
  StopSignals signals(
      [&](int) {
        standing.WaitForNotification();
        if (server != nullptr) server->Stop();
      },
      args.parent_only ? SignalSender::kParent : SignalSender::kAnyone);
  SchedulerLimits limits;
  limits.devices_per_user = args.devices_per_user;
  limits.memory = MemorySpace();
  if (args.lost_after > 0) limits.lease = absl::Seconds(args.lost_after);
  const auto start = [&]() -> absl::Status {
    SchedulerOptions options{.address = args.address, .db_path = args.db, .limits = limits};
    options.keep = {.jobs = args.keep_jobs, .age = absl::Hours(24) * args.keep_days};
    options.metrics = args.metrics;
    options.page = args.page;
    options.serve_page = std::move(serve_page);
    OF_ASSIGN_OR_RETURN_AT(options.allowed, PagePaths(args), "--allow-path");
    options.insecure = args.insecure;
    options.tokens = args.tokens;
    OF_ASSIGN_OR_RETURN(options.identity, LoadIdentityIfAny(args.tls, Holder::kCluster));
    OF_ASSIGN_OR_RETURN(server, SchedulerServer::Start(options));
    return absl::OkStatus();
  };
  const absl::Status started = start();
  standing.Notify();
  if (!started.ok()) return Refuse(started);
  LOG(INFO) << "scheduler listens on " << server->address() << ", jobs are in '" << args.db << "'";
  const std::string page = server->page_url();
  if (absl::Status told =
          TellReady(args.ready_fd, page.empty() ? server->address() : absl::StrCat(server->address(), " ", page));
      !told.ok()) {
    return Refuse(told);
  }
  const absl::Status ended = server->Wait();
  server->Stop();
  return ended.ok() ? 0 : Refuse(ended);
}

}  // namespace oneflow
