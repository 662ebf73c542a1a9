// simulate-scale: what it takes to know the time of a step on thousands of devices before one is taken.
//
//   gpt1t        GPT-1T on pp64 x dp6 x tp8: 3,072 ranks on 384 hosts, 1F1B, 128 micro-batches
//   llama-70b    80 layers of width 8,192 on pp8 x dp2 x tp8: 128 ranks on 16 hosts, 1F1B, 32 micro-batches
//
// Compiled, folded onto the ranks that differ and played until steps repeat, with what is printed of it.
#pragma once

#include <memory>

#include "tools/bench/bench_case.h"

namespace oneflow {

BenchCaseMaker MakeSimulateScaleCase;

}  // namespace oneflow
