// How much of the time that gradients travel is hidden behind computing: a data-parallel GPT on two processes, with an
// emulated link of 1 ms per MB, and without it in the same round.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob and RunJob.
BenchCaseMaker MakeOverlapCase;

}  // namespace oneflow
