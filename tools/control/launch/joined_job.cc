#include "tools/control/launch/joined_job.h"

#include "absl/strings/str_cat.h"

namespace oneflow {

absl::Status FitToAllocation(const Allocation& allocation, SourcedConfig& config) {
  pb::Cluster& cluster = *config.config.mutable_cluster();
  if (!cluster.has_processes()) cluster.set_processes(allocation.tasks);
  if (cluster.processes() != allocation.tasks) {
    return absl::FailedPreconditionError(absl::StrCat(config.Where("cluster.processes"), " is ", cluster.processes(),
                                                      "; ", allocation.launcher, " has begun ", allocation.tasks,
                                                      " tasks"));
  }
  if (!cluster.has_cores_per_process() && allocation.cores > 0) cluster.set_cores_per_process(allocation.cores);
  if (allocation.nodes == 1 || cluster.hosts_size() > 0) return absl::OkStatus();
  if (allocation.uneven) {
    return absl::FailedPreconditionError(absl::StrCat(
        allocation.launcher, " has begun ", allocation.tasks, " tasks on ", allocation.nodes,
        " nodes, not as many on each: ask for that (--ntasks-per-node), or describe the hosts in cluster.hosts"));
  }
  cluster.add_hosts()->set_count(allocation.nodes);
  return absl::OkStatus();
}

}  // namespace oneflow
