#include "tools/scheduler/scheduler_main.h"

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "glog/logging.h"
#include "tools/process/ready_pipe.h"
#include "tools/process/stop_signals.h"
#include "tools/scheduler/service.h"

namespace oneflow {
namespace {

int Fail(const absl::Status& status) {
  std::cerr << "oneflow: " << status.message() << std::endl;
  return 1;
}

}  // namespace

int SchedulerMain(const SchedulerArgs& args) {
  // Signals are blocked before the server's threads start, and lead to it once it stands.
  absl::Notification standing;
  std::unique_ptr<SchedulerServer> server;
  StopSignals signals([&](int) {
    standing.WaitForNotification();
    if (server != nullptr) server->Stop();
  });
  SchedulerLimits limits;
  limits.devices_per_user = args.devices_per_user;
  absl::StatusOr<std::unique_ptr<SchedulerServer>> started =
      SchedulerServer::Start({.address = args.address,
                              .db_path = args.db,
                              .limits = limits,
                              .keep = {.jobs = args.keep_jobs, .age = absl::Hours(24) * args.keep_days}});
  if (started.ok()) server = *std::move(started);
  standing.Notify();
  if (server == nullptr) return Fail(started.status());
  LOG(INFO) << "scheduler listens on " << server->address() << ", jobs are in '" << args.db << "'";
  if (absl::Status told = TellReady(args.ready_fd, server->address()); !told.ok()) return Fail(told);
  const absl::Status ended = server->Wait();
  server->Stop();
  return ended.ok() ? 0 : Fail(ended);
}

}  // namespace oneflow
