// Steps with which training begins, of a plan of their own that does nothing to spare communication (`warmup_steps` of
// sync and of compress).
#pragma once

#include <string>

#include "compiler/options.h"
#include "proto/control.pb.h"

namespace oneflow {

inline constexpr char kExactPlan[] = "train/exact";

// Adds the graph that is trained once more, by another name, behind it. Nothing where no graph is trained.
void AddTrainAs(const std::string& name, Program& program);

// The first steps of a phase of training are those of kExactPlan.
void FillExactSteps(int64_t steps, const pb::JobSpec& spec, pb::TrainLoop& loop);

}  // namespace oneflow
