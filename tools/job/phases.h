// What every worker of a job does, in order: train so many steps, evaluate, save, generate.
#pragma once

#include <map>

#include "compiler/options.h"
#include "google/protobuf/repeated_field.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"
#include "tools/job/evaluation.h"

namespace oneflow {

// The phases that the config asks for, given the graphs that exist. `cut`: of one evaluation.
// Training is one phase, a rule. Evaluations begin at the first sample each time. Paths are taken as they are.
google::protobuf::RepeatedPtrField<pb::Phase> MakePhases(const pb::JobConfig& config, const Program& program,
                                                         const EvaluationCut& cut);

// What of the job's state is saved when, with the defaults of what the config leaves open.
pb::CheckpointRule MakeCheckpointRule(const pb::Checkpoint& checkpoint);

}  // namespace oneflow
