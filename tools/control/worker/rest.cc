#include "tools/control/worker/rest.h"

namespace oneflow {

absl::Status RunWithRest(Engine& engine, const pb::RunPlan& run) {
  if (run.steps() > 0 || run.rest_plan().empty()) {
    OF_RETURN_IF_ERROR(engine.Run(run.plan(), run.first_step(), run.steps()));
  }
  if (run.rest_plan().empty()) return absl::OkStatus();
  engine.ShiftRows(run.rest_plan(), run.rest_row());
  return engine.Run(run.rest_plan(), /*first_step=*/0, /*steps=*/1);
}

void CountAsWhole(const pb::JobSpec& spec, Fetched& fetched) {
  for (const pb::Phase& phase : spec.phases()) {
    for (const pb::RampStage& stage : phase.train().ramp()) {
      if (stage.plan() != fetched.plan) continue;
      fetched.plan = phase.train().plan();
      return;
    }
    if (phase.train().has_choice() && phase.train().choice().plan() == fetched.plan) {
      fetched.plan = phase.train().plan();
      return;
    }
    const pb::RunPlan& run = phase.has_train() ? phase.train().evaluation() : phase.run();
    if (run.rest_plan().empty() || run.rest_plan() != fetched.plan) continue;
    fetched.plan = run.plan();
    fetched.step += run.first_step() + run.steps();
    if (!fetched.weight.has_value()) fetched.weight = run.rest_weight();
    return;
  }
}

}  // namespace oneflow
