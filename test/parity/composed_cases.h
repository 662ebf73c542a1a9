// Functions that are made of several ops (oneflow_core/composed.h), called on operands: op_dump computes them and their
// gradients, and op_parity_test.py says what they are in PyTorch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "oneflow_core/builder.h"
#include "test/support/op_facts.h"

namespace oneflow::testing {

// What `of_op.op` names is the function; its attributes are for PyTorch.
struct ComposedCase {
  OpCase of_op;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call;
};

// The same for the same seed. Operands are rounded to what their types hold.
std::vector<ComposedCase> ComposedCases(uint64_t seed);

}  // namespace oneflow::testing
