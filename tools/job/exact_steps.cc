#include "tools/job/exact_steps.h"

#include <algorithm>
#include <utility>

namespace oneflow {

void AddTrainAs(const std::string& name, Program& program) {
  const auto train =
      std::find_if(program.begin(), program.end(), [](const Graph& graph) { return graph.name() == "train"; });
  if (train == program.end()) return;
  Graph other = *train;
  other.set_name(name);
  program.insert(train + 1, std::move(other));
}

void FillExactSteps(int64_t steps, const pb::JobSpec& spec, pb::TrainLoop& loop) {
  if (steps == 0) return;
  pb::RampStage& stage = *loop.add_ramp();
  stage.set_plan(kExactPlan);
  stage.set_end_step(steps);
  stage.set_samples_per_step(spec.samples_per_step());
  stage.set_rows_per_step(spec.rows_per_step());
}

}  // namespace oneflow
