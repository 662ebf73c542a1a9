// The optimizer of a job: the fields of `train.optimizer.<rule>` are the attributes of a rule of
// oneflow_core/optimizer_rules.h, whose defaults and ranges hold for them. Groups of variables begin with what the job
// says and change what they say themselves.
#pragma once

#include <optional>

#include "compiler/options.h"
#include "oneflow_core/op.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"
#include "tools/job/config.h"

namespace oneflow {

// REQUIRES: CheckFields() has found nothing.
OptimizerOptions OptimizerOf(const pb::Optimizer& optimizer);

// What `train.lora` says; none without it.
std::optional<AdapterOptions> AdaptersOf(const pb::Train& train);

// Adds what `train.lora` asks for to the graphs of the job (compiler/adapters.h), with its errors at that field.
absl::Status AdaptProgram(const SourcedConfig& config, const OpRegistry& ops, Program& program);

// What is wrong among the fields, beyond their own ranges.
void CheckOptimizer(const pb::Optimizer& optimizer, Checker& check);
// InvalidArgument, naming the field, if a group has no variable of the graph that is trained.
absl::Status CheckGroups(const SourcedConfig& config, const OptimizerOptions& optimizer, const Program& program,
                         const OpRegistry& ops);

}  // namespace oneflow
