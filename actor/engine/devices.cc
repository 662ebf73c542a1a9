#include "actor/engine/devices.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "actor/local_device.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

absl::StatusOr<std::unique_ptr<DeviceContext>> OpenDevice(const Device& device, int cores, int queue) {
  if (device.kind == DeviceKind::kCpu) return MakeCpuDevice(cores);
  std::string why;
  const auto priority = QueueKindOf(queue).moves_between_ranks ? StreamPriority::kUrgent : StreamPriority::kNormal;
  std::unique_ptr<DeviceContext> context = MakeCudaDevice(device.index, &why, priority);
  if (context == nullptr) return absl::UnavailableError(why);
  return context;
}

absl::StatusOr<std::unique_ptr<DeviceContext>> Open(const EngineOptions& options, const LoadedJob& job, int rank,
                                                    int queue, int cores) {
  OF_ASSIGN_OR_RETURN_AT(const Device device, LocalDevice(job.program, rank), job.Where(rank));
  absl::StatusOr<std::unique_ptr<DeviceContext>> context =
      options.open_device ? options.open_device(device, cores) : OpenDevice(device, cores, queue);
  OF_RETURN_IF_ERROR_AT(context.status(), absl::StrCat("rank ", rank));  // the device names itself
  return context;
}

// Queues other than the main one take no more than a core, and mostly sleep.
absl::Status OpenQueues(const EngineOptions& options, LoadedJob& job) {
  std::set<std::pair<int, int>> used;
  for (const pb::Plan& plan : job.program.plans()) {
    for (const pb::Actor& actor : plan.actors()) used.insert({actor.rank(), actor.queue()});
  }
  for (const int rank : job.ranks) {
    job.lanes.push_back({.rank = rank, .queue = MainQueue(), .device = job.devices[rank].get()});
    for (const QueueKind& kind : kQueues) {
      if (kind.is_main || !used.contains({rank, kind.queue})) continue;
      OF_ASSIGN_OR_RETURN(job.queue_devices.emplace_back(), Open(options, job, rank, kind.queue, /*cores=*/1));
      job.lanes.push_back({.rank = rank, .queue = kind.queue, .device = job.queue_devices.back().get()});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OpenDevices(const EngineOptions& options, LoadedJob& job) {
  int cpu_devices = 0;
  for (int r = 0; r < job.program.ranks_size(); ++r) {
    if (!job.IsOurs(r)) continue;
    job.ranks.push_back(r);
    cpu_devices += Device::Parse(job.program.ranks(r).device())->kind == DeviceKind::kCpu;
  }
  job.devices.resize(job.program.ranks_size());
  const int cores = std::max(1, options.cores / std::max(1, cpu_devices));
  for (const int rank : job.ranks) {
    OF_ASSIGN_OR_RETURN(job.devices[rank], Open(options, job, rank, MainQueue(), cores));
    OF_RETURN_IF_ERROR_AT(job.memory.Allocate(rank, job.program.ranks(rank), *job.devices[rank]), job.Where(rank));
  }
  return OpenQueues(options, job);
}

}  // namespace oneflow
