#include "test/tools/support/job_spec.h"

#include "compiler/lower/compile.h"
#include "compiler/lower/plan_reader.h"
#include "oneflow_core/zones.h"

namespace oneflow::testing {

pb::JobSpec EmptyJob(int processes, int devices_per_process, int hosts, int64_t rank_bytes) {
  pb::PlanSet plan;
  plan.set_version(kPlanVersion);
  plan.add_plans()->set_name("train");
  plan.mutable_plans(0)->add_memory();
  plan.add_grids();  // its mesh: rank 0
  const int num_ranks = processes * devices_per_process;
  plan.mutable_hosts()->set_num_ranks(num_ranks);
  plan.mutable_hosts()->set_ranks_per_process(devices_per_process);
  plan.mutable_hosts()->set_device("cpu");
  pb::HostsAlike& host = *plan.mutable_hosts()->add_groups();
  host.set_count(hosts);
  host.set_devices(num_ranks / hosts);
  pb::RankClass& all = *plan.add_classes();
  for (int rank = 0; rank < num_ranks; ++rank) all.add_ranks(rank);
  MutableZone(all, kPrivateZone).set_bytes(rank_bytes);
  pb::JobSpec spec;
  spec.set_name("empty");
  spec.set_plan(*SerializePlan(plan));
  spec.set_plan_hash(PlanHash(spec.plan()));
  spec.set_processes(processes);
  spec.set_devices_per_process(devices_per_process);
  spec.set_device("cpu");
  spec.set_cores_per_process(1);
  spec.add_phases()->mutable_run()->set_plan("train");
  spec.mutable_phases(0)->mutable_run()->set_steps(1);
  return spec;
}

void AddFallback(const pb::JobSpec& smaller, const std::string& layout, pb::JobSpec& spec) {
  pb::Fallback& fallback = *spec.add_fallbacks();
  fallback.set_plan(smaller.plan());
  fallback.set_plan_hash(smaller.plan_hash());
  fallback.set_processes(smaller.processes());
  fallback.set_devices_per_process(smaller.devices_per_process());
  fallback.set_cores_per_process(smaller.cores_per_process());
  fallback.set_layout(layout);
}

}  // namespace oneflow::testing
