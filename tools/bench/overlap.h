// How much of the time that gradients, and gathered weights, travel is hidden behind computing: a GPT on two processes,
// with copies of all state and with parts of it, on two emulated links, and without them in the same round.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob and RunJob.
BenchCaseMaker MakeOverlapCase;

}  // namespace oneflow
