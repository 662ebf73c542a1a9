// What CO2 hides of a slow link: steps per second of two processes that train by themselves and take means that travel
// while they go on, beside no exchange at all, data parallelism, and rounds that are too short; on an emulated link of
// 100 Mbit/s, in one round. And what that costs in loss (edges_co2_quality.h).
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob and RunToEnd.
BenchCaseMaker MakeEdgesCo2Case;

}  // namespace oneflow
