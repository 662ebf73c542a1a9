// elementwise: a few elementwise ops on tensors that no cache holds, as the one op that the compiler makes of them
// (compiler/passes/fuse_elementwise.cc) and one by one, in turn; beside the floor, which is what inputs and outputs
// take at the rate that one addition reaches on the same tensors. In f32 and bf16, of random normal numbers, the best
// of repetitions.
//
//   ops on 4096 x 3072            one op  one by one    floor   faster   one op / floor
//   a gate                f32     9.0 ms     18.0 ms   8.1 ms     2.00             1.11
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "oneflow_core/dtype.h"
#include "tools/bench/bench_case.h"

namespace oneflow {

// The best seconds so far; 0: nobody measured them.
struct ElementwiseRow {
  std::string name;     // "a gate"
  std::string program;  // oneflow_core/elementwise.h
  DType dtype = DType::kFloat32;
  int operands = 0;  // tensors that are read or written
  double whole = 0, apart = 0, addition = 0;

  double floor() const { return addition * operands / 3; }
};

std::string ElementwiseText(const std::vector<ElementwiseRow>& rows, int cores);

BenchCaseMaker MakeElementwiseCase;

}  // namespace oneflow
