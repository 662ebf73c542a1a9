// The optimizer of a job: the fields of `train.optimizer.<rule>` are the attributes of a rule of
// oneflow_core/optimizer_rules.h, whose defaults and ranges hold for them.
#pragma once

#include "compiler/options.h"
#include "proto/job.pb.h"

namespace oneflow {

// REQUIRES: CheckFields() has found nothing.
OptimizerOptions OptimizerOf(const pb::Optimizer& optimizer);

}  // namespace oneflow
