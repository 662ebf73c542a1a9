// zero: what it costs and frees that data-parallel devices keep parts of the state: GPTs of 10 and 124 million
// parameters on four processes, as copies and in all three stages, which have the same losses to the bit but for
// clipping. With --pytorch, FSDP2 and DDP over gloo in the same rounds.
//
//             step s   of copies   memory MB   of copies   moved MB   by formula
//   copies     1.000        1.00       1,000        1.00        500          500
//   stage 3    1.050        1.05         500        0.50        750          750
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob, RunJob and AskPyTorch; Internal if losses of stages differ.
BenchCaseMaker MakeZeroCase;

}  // namespace oneflow
