// Jobs of all kinds, small enough to be compiled in a moment.
#pragma once

#include <vector>

#include "compiler/options.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace oneflow::testing {

struct SmallJob {
  pb::JobConfig config;
  Program program;
  pb::PlanSet plan;
};

// Made once. What they read lies in a folder that is gone at the end of the process.
const std::vector<SmallJob>& SmallJobs();

}  // namespace oneflow::testing
