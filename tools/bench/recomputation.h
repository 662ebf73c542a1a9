// What it costs and frees to compute a GPT's layers again for backward: the quickstart's model with and without, in the
// same round.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob and RunJob; Internal if the losses are not the same.
BenchCaseMaker MakeRecomputationCase;

}  // namespace oneflow
