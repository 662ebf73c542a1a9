// predict: what this engine predicts of runs that others have published (published.h), beside what they measured.
//
// Nothing is fitted: rates are those of data sheets, the shares of them that are reached Calculon's
// (sbp/device_kinds.cc).
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

std::unique_ptr<BenchCase> MakePredictCase(const BenchContext& context);
// Parts of it: what devices keep of layers; how long steps take; which of several runs are faster.
std::unique_ptr<BenchCase> MakePredictMemoryCase(const BenchContext& context);
std::unique_ptr<BenchCase> MakePredictStepsCase(const BenchContext& context);
std::unique_ptr<BenchCase> MakePredictOrdersCase(const BenchContext& context);

}  // namespace oneflow
