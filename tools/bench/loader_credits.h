// loader-credits: what slots of what is read are worth. A GPT on one device whose batches take a quarter longer to
// read than to compute, with 1, 2 and 4 slots for them: a step as it ran, beside the period that its plan has by the
// times of its acts (compiler/plan/period.h).
//
//   1 slot     read ▓▓▓▓        ▓▓▓▓           a batch is read when the last one has been computed
//           compute     ▓▓▓▓        ▓▓▓▓
//   2 slots    read ▓▓▓▓▓▓▓▓▓▓▓▓               while it is
//           compute     ▓▓▓▓▓▓▓▓
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob, RunToEnd and MeasuredTimes.
BenchCaseMaker MakeLoaderCreditsCase;

}  // namespace oneflow
