// What choosing the code of each matrix saves (compress { adaptive }, L-GreCo): a model of the next word from eight, of
// 485,000 weights, on the text of the C++ library's headers, by four ranks. Beside each choice the uniform code that it
// begins with, and one of about as few bytes.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its round as of MakeJob and RunToEnd. What it measures follows from its seeds: a second round is the same.
BenchCaseMaker MakeEdgesLgrecoCase;

}  // namespace oneflow
