// The learning rate of a step, which all updates share: it follows from the count of steps.
#pragma once

#include "compiler/options.h"
#include "oneflow_core/graph_editor.h"

namespace oneflow {

// The names of the variable that counts steps, i64[], and of the node that makes the rate, f32[].
inline constexpr char kStepsTaken[] = "optimizer/step", kLearningRate[] = "optimizer/lr";

// Both are made if they are not there, with the role, source and place of the editor.
Tensor StepsTaken(GraphEditor& editor);
Tensor LearningRate(GraphEditor& editor, const ScheduleOptions& schedule);

}  // namespace oneflow
