// own-runs: how right the simulator is about runs of this machine. A GPT, a convolutional network and a Wide & Deep
// model, on one device, on two as dp2, tp2 and pp2, on four as dp4, dp2 x tp2, pp2 x dp2 and tp4; the GPT also with its
// state in parts (`zero`), with tokens on two devices, and with states and weights on disk. A round runs each of them
// with a trace, measures its kernels (tools/study/calibration/kernels.h) right behind, with as many devices computing
// at once, and simulates it with these:
//
//   run ──trace──► step, bottleneck, memory held ──┐
//   kernels ──────► simulation ────────────────────┴─► ratio of the steps; the same bottleneck, memory?
//
// What slows the machine down slows both, so believe the ratios of rounds. Where there are more devices than cores they
// are told apart: the virtual clock does not know that who waits leaves its share of a core to others.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob, RunToEnd and MeasureKernels; NotFound without the data set of Fashion-MNIST.
BenchCaseMaker MakeOwnRunsCase;

}  // namespace oneflow
