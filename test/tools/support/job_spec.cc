#include "test/tools/support/job_spec.h"

#include "absl/strings/str_cat.h"
#include "compiler/lower/compile.h"

namespace oneflow::testing {

pb::JobSpec EmptyJob(int processes, int devices_per_process) {
  pb::PlanSet plan;
  plan.set_version(kPlanVersion);
  plan.add_plans()->set_name("train");
  for (int rank = 0; rank < processes * devices_per_process; ++rank) {
    plan.add_ranks()->set_process(rank / devices_per_process);
    plan.mutable_ranks(rank)->set_device(absl::StrCat("cpu:", rank % devices_per_process));
  }
  pb::JobSpec spec;
  spec.set_name("empty");
  spec.set_plan(SerializePlan(plan));
  spec.set_plan_hash(PlanHash(spec.plan()));
  spec.set_processes(processes);
  spec.set_devices_per_process(devices_per_process);
  spec.set_device("cpu");
  spec.set_cores_per_process(1);
  spec.add_phases()->mutable_run()->set_plan("train");
  spec.mutable_phases(0)->mutable_run()->set_steps(1);
  return spec;
}

}  // namespace oneflow::testing
