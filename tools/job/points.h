// Plans of rules that take gradients at other points than the weights (compiler/points.h).
#pragma once

#include <cstdint>
#include <string>

#include "compiler/options.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"

namespace oneflow {

// What such rules do not go with, and anchors of several probabilities.
void CheckPoints(const pb::JobConfig& config, Checker& check);

// Adds the graphs of half steps and of anchors to a program that trains, if its rules want some. They fetch nothing.
void AddPointSteps(const pb::JobConfig& config, Program& program);

// Of how many batches the gradient at an anchor is; 1 without one.
int AnchorBatches(const pb::JobConfig& config);

// When the plans run: in the job's phase of training.
void FillPoints(const pb::JobConfig& config, pb::JobSpec& spec);

// The coin of a step: whether the anchor moves behind it. All who ask get the same answer.
bool MovesAnchor(const pb::PointRule& rule, uint64_t seed, int64_t step);

// How often a plan of a job that trains (compiler/points.h) runs in its first `steps` steps; 0: of other plans. Takes
// time in proportion to the steps if the rule has anchors.
int64_t RunsOfPlan(const std::string& plan, const pb::PointRule& rule, uint64_t seed, int64_t steps);

}  // namespace oneflow
