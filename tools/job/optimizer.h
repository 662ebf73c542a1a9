// The optimizer of a job: the fields of `train.optimizer.<rule>` are the attributes of a rule of
// oneflow_core/optimizer_rules.h, whose defaults and ranges hold for them.
#pragma once

#include "compiler/options.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"

namespace oneflow {

// REQUIRES: CheckOptimizer() has found nothing.
OptimizerOptions OptimizerOf(const pb::Optimizer& optimizer);

// Tells `check` which fields are outside of their ranges.
void CheckOptimizer(const pb::Optimizer& optimizer, Checker& check);

}  // namespace oneflow
