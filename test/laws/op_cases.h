// The table of ops that the laws are checked on: every op with attributes and operands small enough to try all layouts, and sizes
// that few meshes divide.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/op.h"
#include "test/support/reference.h"

namespace oneflow::testing {

struct OpCase {
  std::string op;
  AttrMap attrs;
  std::vector<RefTensor> inputs;
  double tolerance = 1e-5;  // absolute, and relative to the result
};

// The same for the same seed.
std::vector<OpCase> OpCases(uint64_t seed);

TensorType TypeOf(const RefTensor& x);
std::vector<TensorType> TypesOf(absl::Span<const RefTensor> tensors);

// "matmul(f32[7,6] f32[6,9])".
std::string ToString(const OpCase& c);

}  // namespace oneflow::testing
