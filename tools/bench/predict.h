// predict: what this engine predicts of runs that others have published (published.h), beside what they measured.
//
// Nothing is fitted: rates are those of data sheets, the shares of them that are reached Calculon's
// (sbp/device_kinds.cc).
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

BenchCaseMaker MakePredictCase;
// Parts of it: what devices keep of layers; how long steps take; which of several runs are faster.
BenchCaseMaker MakePredictMemoryCase;
BenchCaseMaker MakePredictStepsCase;
BenchCaseMaker MakePredictOrdersCase;

}  // namespace oneflow
