#include "tools/study/sim/simulated_job.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/plan.pb.h"
#include "tools/job/cluster.h"
#include "tools/job/field_rules.h"
#include "tools/job/read_text.h"

namespace oneflow {

namespace {

template <typename Plans>
absl::StatusOr<int> FindNamed(const Plans& plans, const std::string& name) {
  std::vector<std::string> names;
  for (int p = 0; p < plans.size(); ++p) {
    if (name.empty() || plans[p].name() == name) return p;
    names.push_back(plans[p].name());
  }
  return absl::NotFoundError(
      absl::StrCat("--plan: there is no plan '", name, "'; there are: ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<int> FindPlan(const pb::Program& program, const std::string& name) {
  return FindNamed(program.plans(), name);
}

absl::StatusOr<int> FindPlan(const pb::PlanSet& set, const std::string& name) { return FindNamed(set.plans(), name); }

absl::StatusOr<Topology> TopologyOf(const CompileOptions& options) {
  if (options.hosts.empty()) return OneHost(options.NumRanks(), options.ranks_per_process);
  return Topology::Create(options.NumRanks(), options.ranks_per_process, options.hosts);
}

absl::StatusOr<Topology> TopologyOfFile(const std::string& file, const Job& job) {
  OF_ASSIGN_OR_RETURN(const std::string text, ReadText("--cluster", file));
  OF_ASSIGN_OR_RETURN(SourcedConfig there, ParseConfig(absl::StrCat("cluster {", text, "\n}"), file));
  pb::JobConfig config = job.config.config;
  *config.mutable_cluster() = there.config.cluster();
  config.mutable_cluster()->set_processes(job.spec.processes());
  config.mutable_cluster()->set_device(job.spec.device());
  there.config = std::move(config);
  OF_RETURN_IF_ERROR(CheckFields(there));
  OF_ASSIGN_OR_RETURN(std::vector<HostGroup> hosts, HostsOf(there));
  OF_ASSIGN_OR_RETURN_AT(Topology topology,
                         Topology::Create(job.options.NumRanks(), job.options.ranks_per_process, std::move(hosts)),
                         file);
  return topology;
}

int ThreadsOfARank(const pb::JobSpec& spec) {
  return std::max(1, spec.cores_per_process() / spec.devices_per_process());
}

}  // namespace oneflow
