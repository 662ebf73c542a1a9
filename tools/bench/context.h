// context: causal attention over one long sample whose tokens lie on four processes: in a ring, by heads (all-to-all),
// by both, and as cost chooses; beside one process that has all tokens, and beside PyTorch's ring attention over gloo.
// A step is attention and its gradient. Every way has to give the loss of one process. A round goes three times over
// all ways, and takes the fastest of each: what else the machine does slows now one of them down, now another.
#pragma once

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of MakeJob and RunJob; Internal if losses differ; Unavailable if PyTorch is asked for and not
// there.
BenchCaseMaker MakeContextCase;

}  // namespace oneflow
