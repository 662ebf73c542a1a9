// What a job takes before its first step: GPT-2 124M on one device of one core, from a graph to a plan, and from there
// to an engine with its initial values.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

// Errors of its rounds as of Compile and Engine::Create.
BenchCaseMaker MakeStartUpCase;

}  // namespace oneflow
