// own-runs: how right the simulator is about runs of this machine. A GPT, a convolutional network and a Wide & Deep
// model, on one device, dp2, tp2 and pp2, so that every rank has a core. A round runs each of them with a trace,
// measures its kernels (tools/bench/kernels.h) right behind, and simulates it with these:
//
//   run ──trace──► step, bottleneck, memory held ──┐
//   kernels ──────► simulation ────────────────────┴─► ratio of the steps; the same bottleneck, memory?
//
// What slows the machine down slows both, so believe the ratios of rounds.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob, RunToEnd and MeasureKernels; NotFound without the data set of Fashion-MNIST.
std::unique_ptr<BenchCase> MakeOwnRunsCase(const BenchContext& context);

}  // namespace oneflow
