// What a simulation asks of a job that was compiled.
#pragma once

#include <string>

#include "compiler/options.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "sbp/topology.h"

namespace oneflow {

// The plan of that name, or the first if it is empty. NotFound, with the names that there are.
absl::StatusOr<int> FindPlan(const pb::Program& program, const std::string& name);
absl::StatusOr<int> FindPlan(const pb::PlanSet& set, const std::string& name);

// The hosts of the job; one with usual devices if it says nothing of hosts.
absl::StatusOr<Topology> TopologyOf(const CompileOptions& options);

// What a rank computes with.
int ThreadsOfARank(const pb::JobSpec& spec);

}  // namespace oneflow
