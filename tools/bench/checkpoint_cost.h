// What it costs to save checkpoints beside training: GPT-2 124M with one every 20 steps and without, in the same round.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// `--steps` says after how many steps one is saved. Errors of its rounds as of MakeJob and RunToEnd; Internal if the
// losses are not the same, or if no checkpoint was written.
BenchCaseMaker MakeCheckpointCase;

}  // namespace oneflow
