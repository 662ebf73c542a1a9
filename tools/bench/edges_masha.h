// What codes of differences to an anchor save (compress beside optimizer masha, MASHA): a bilinear game of 100 numbers
// among 20 and 10 workers, a rank each on four processes, until the distance to the solution is a millionth. Beside it
// extragradient, optimistic steps, codes of the gradients themselves, and a shift that is learned (DIANA). And a
// language model whose words an adversary moves (moved_words.h).
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its round as of MakeJob and RunToEnd. What it measures follows from its seed: a second round is the same.
BenchCaseMaker MakeEdgesMashaCase;

}  // namespace oneflow
