// Training that begins with smaller batches (train.ramp): a plan for each size, whose steps have fewer micro-batches.
//
//   train.batch_size: 64  micro_batches: 4  ramp { start: 16 increment: 16 samples: 960 }
//
//   plan         train/16  train/32  train/48  train
//   micro-batches   1         2         3        4
//   steps           20        10        7       the rest     320 samples each, rounded up to steps
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/options.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"

namespace oneflow {

struct RampedSteps {
  std::string plan;
  int32_t batch = 0;
  int32_t micro_batches = 0;
  int64_t end_step = 0;  // they are the steps before this one that no stage before has
};

// Without those that begin behind the job's last step. REQUIRES: CheckRamp() has found nothing.
std::vector<RampedSteps> RampOf(const pb::JobConfig& config);

// Batches that are no whole micro-batches, steps that lead past batch_size, more than kMostRampSizes sizes.
inline constexpr int kMostRampSizes = 32;
void CheckRamp(const pb::JobConfig& config, Checker& check);

// Adds the graphs of the smaller steps to a program that trains.
void AddRamp(const pb::JobConfig& config, Program& program);

}  // namespace oneflow
