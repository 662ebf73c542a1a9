#include "tools/control/cluster/run_to_end.h"

#include <memory>

#include "tools/control/cluster/embedded.h"

namespace oneflow {

absl::StatusOr<std::vector<pb::JobEvent>> RunToEnd(const pb::JobSpec& spec, const std::atomic<bool>& stop) {
  EmbeddedOptions options;
  options.daemons = spec.processes();
  options.devices_per_daemon = spec.devices_per_process();
  options.device = spec.device();
  options.cores_per_daemon = spec.cores_per_process();
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedCluster> cluster, EmbeddedCluster::Start(options));
  return RunToEndOn(cluster->address(), spec, stop);
}

absl::StatusOr<std::vector<pb::JobEvent>> RunToEndOn(const SchedulerAddress& scheduler, const pb::JobSpec& spec,
                                                     const std::atomic<bool>& stop) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(scheduler));
  OF_ASSIGN_OR_RETURN(const int64_t id, client->Submit(spec));
  std::vector<pb::JobEvent> events;
  OF_RETURN_IF_ERROR(client->Watch(id, 0, [&](const pb::JobEvent& event) {
    events.push_back(event);
    return !stop;
  }));
  if (stop) return absl::CancelledError("interrupted");
  const pb::StateChange& last = events.back().state();
  if (last.state() != pb::FINISHED) return absl::AbortedError(last.message());
  return events;
}

}  // namespace oneflow
