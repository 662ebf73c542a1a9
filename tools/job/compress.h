// Gradients that travel as codes (compress of a job config, compiler/passes/edges/codec.h), and codes that are chosen
// while the job trains (compiler/code_choices.h).
//
//   compress { family: POWERSGD default: 4 warmup_steps: 100 adaptive { every: 200 window: 10 } }
//
//   plan     train/exact     train     train/window     compress/choose     train     train/window     ..
//   steps        100          190           10             (one act)         190           10
#pragma once

#include <optional>

#include "compiler/options.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"

namespace oneflow {

// A window longer than the time between two choices, candidates that exclude the usual number, and what codes that
// change do not go with.
void CheckCompress(const pb::JobConfig& config, Checker& check);

std::optional<CompressOptions> CompressOf(const pb::JobConfig& config);

// Adds the graphs of exact steps and of windows to a program that trains, if there are any.
void AddCompressSteps(const pb::JobConfig& config, Program& program);

// When the plans run: in the job's phase of training.
void FillCompress(const pb::JobConfig& config, pb::JobSpec& spec);

}  // namespace oneflow
