// offload: what it costs and frees that a model lies on disk: a GPT of 124 million parameters on one device, in memory,
// and with the optimizer's state, the weights too, and what backward needs on disk. Losses are the same to the bit. The
// floor of a step is the longer of the step in memory and of the disk's work, at the rate at which it reads and writes
// at once in the same round.
//
//                  step s   of memory   of the floor   device MB   on disk MB   peak MB, of the plan's   moved MB
//   in memory       1.000        1.00           1.00       2,600            0         2,700       1.04          0
//   + optimizer     1.200        1.20           1.05       1,700        1,000         1,800       1.02      2,000
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob, RunJob and TierFile::Create; Internal if losses differ.
BenchCaseMaker MakeOffloadCase;

}  // namespace oneflow
