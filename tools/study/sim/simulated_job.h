// What a simulation asks of a job that was compiled.
#pragma once

#include <string>

#include "compiler/options.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "proto/program.pb.h"
#include "sbp/topology.h"
#include "tools/job/job.h"

namespace oneflow {

namespace pb {
class PlanSet;
}

// The plan of that name, or the first if it is empty. NotFound, with the names that there are.
absl::StatusOr<int> FindPlan(const pb::Program& program, const std::string& name);
absl::StatusOr<int> FindPlan(const pb::PlanSet& set, const std::string& name);

// The hosts of the job; one with usual devices if it says nothing of hosts.
absl::StatusOr<Topology> TopologyOf(const CompileOptions& options);

// The ranks of a compiled job on the hosts of a file, which has the text of a job's `cluster`: what is said there of
// processes and of the device is the job's. NotFound if there is no such file; InvalidArgument with its line as of
// HostsOf.
absl::StatusOr<Topology> TopologyOfFile(const std::string& file, const Job& job);

// What a rank computes with.
int ThreadsOfARank(const pb::JobSpec& spec);

}  // namespace oneflow
