#include "tools/job/step_sizes.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace oneflow {

StepSizes::StepSizes(const pb::JobSpec& spec) {
  StepStage last = {.plan = "train",
                    .end = std::numeric_limits<int64_t>::max(),
                    .size = {spec.samples_per_step(), spec.rows_per_step()}};
  for (const pb::Phase& phase : spec.phases()) {
    if (!phase.has_train()) continue;
    last.plan = phase.train().plan();
    for (const pb::RampStage& stage : phase.train().ramp()) {
      stages_.push_back({.plan = stage.plan(),
                         .begin = last.begin,
                         .end = stage.end_step(),
                         .size = {stage.samples_per_step(), stage.rows_per_step()}});
      last.begin = stage.end_step();
    }
    break;
  }
  stages_.push_back(std::move(last));
}

const StepStage& StepSizes::StageOf(int64_t step) const {
  return *std::find_if(stages_.begin(), stages_.end() - 1, [&](const StepStage& stage) { return step < stage.end; });
}

StepSize StepSizes::Of(int64_t begin, int64_t end) const {
  StepSize sum;
  for (const StepStage& stage : stages_) {
    const int64_t steps = std::max<int64_t>(0, std::min(end, stage.end) - std::max(begin, stage.begin));
    sum.samples += steps * stage.size.samples;
    sum.rows += steps * stage.size.rows;
  }
  return sum;
}

int64_t StepSizes::StepAfter(int64_t begin, int64_t samples) const {
  for (const StepStage& stage : stages_) {
    if (stage.end <= begin) continue;
    begin = std::max(begin, stage.begin);
    if (samples <= 0 || stage.size.samples <= 0) return begin;
    const int64_t steps = samples / stage.size.samples + (samples % stage.size.samples > 0);
    if (steps <= stage.end - begin) return begin + steps;
    samples -= (stage.end - begin) * stage.size.samples;
    begin = stage.end;
  }
  return begin;
}

}  // namespace oneflow
