// The optimizer of a job: the fields of `train.optimizer.<rule>` are the attributes of a rule of
// oneflow_core/optimizer_rules.h, whose defaults and ranges hold for them. Groups of variables begin with what the job
// says and change what they say themselves.
#pragma once

#include "compiler/options.h"
#include "oneflow_core/op.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"
#include "tools/job/config.h"

namespace oneflow {

// REQUIRES: CheckFields() has found nothing.
OptimizerOptions OptimizerOf(const pb::Optimizer& optimizer);

// What is wrong among the fields, beyond their own ranges.
void CheckOptimizer(const pb::Optimizer& optimizer, Checker& check);
// InvalidArgument, naming the field, if a group has no variable of the graph that is trained.
absl::Status CheckGroups(const SourcedConfig& config, const OptimizerOptions& optimizer, const Program& program,
                         const OpRegistry& ops);

}  // namespace oneflow
