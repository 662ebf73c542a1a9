// The logical graphs of the models that a job config can name.
#pragma once

#include "compiler/options.h"
#include "oneflow_core/op.h"
#include "proto/job.pb.h"

namespace oneflow {

// Builds the graphs of config.model on config.data with defaults filled in; `evaluate` and `generate` graphs as the
// config asks. InvalidArgument from the model; NotFound or InvalidArgument naming the file for model.graph. REQUIRES:
// the config is valid.
absl::StatusOr<Program> BuildProgram(const pb::JobConfig& config, const OpRegistry& ops);

// Samples per act of the evaluation graph.
int64_t EvaluationBatch(const pb::JobConfig& config);

}  // namespace oneflow
