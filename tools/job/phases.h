// What every worker of a job does, in order: train so many steps, evaluate, save, generate.
#pragma once

#include <map>

#include "compiler/options.h"
#include "google/protobuf/repeated_field.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"

namespace oneflow {

// The phases that the config asks for, given the graphs that exist. `evaluation_batches`: of one evaluation.
// Training is one phase, a rule. Evaluations begin at the first sample each time. Paths are taken as they are.
google::protobuf::RepeatedPtrField<pb::Phase> MakePhases(const pb::JobConfig& config, const Program& program,
                                                         int64_t evaluation_batches);

// What of the job's state is saved when, with the defaults of what the config leaves open.
pb::CheckpointRule MakeCheckpointRule(const pb::Checkpoint& checkpoint);

// How many batches one evaluation takes: evaluate.batches, or as many whole batches as the split that the graph
// "evaluate" reads has. Opens the data to count; errors of OpenSource. InvalidArgument if the split holds less than one
// batch.
absl::StatusOr<int64_t> EvaluationBatches(const pb::JobConfig& config, const Program& program);

}  // namespace oneflow
