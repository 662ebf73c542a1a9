// The cases of type inference: every op with operands it takes and operands it refuses, as lines of text in
// test/support/ops.
//
//   matmul(f32[2,3] f32[4,3]) {transpose_b=true} = f32[2,4]
//   matmul(f32[2,3] f32[4,3]) ! inner dimensions differ: a is f32[2,3], w is f32[4,3]
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/shape.h"

namespace oneflow::testing {

struct InferCase {
  std::string line;  // the whole line, for messages
  std::string op;
  std::vector<TensorType> inputs;
  AttrMap attrs;
  std::vector<TensorType> outputs;  // if `error` is empty
  std::string error;
};

// InvalidArgument, quoting it, if a line is not of the form above.
absl::StatusOr<std::vector<InferCase>> InferCases();

}  // namespace oneflow::testing
