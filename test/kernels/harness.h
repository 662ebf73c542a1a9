// Runs one kernel on tensors of doubles as the runtime would run it: operands in device memory at 64-byte boundaries,
// scratch area, prepared state. Outputs are filled with a pattern before and followed by guard bytes, which must
// survive.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "oneflow_core/memory_layout.h"
#include "test/support/reference.h"

namespace oneflow::testing {

// Where an operand lies in its logical tensor; empty: it is the whole.
struct Part {
  std::vector<int64_t> logical_dims, start;
};

struct KernelCall {
  std::string op;
  AttrMap attrs;
  std::vector<RefTensor> inputs;
  std::vector<RefTensor> outputs;               // dims and dtypes; the contents are what is there before
  std::vector<Part> input_parts, output_parts;  // empty, or one per operand
  RefContext context;
  int output_in_input = -1;                // output 0 occupies the memory of this input
  int rows_before = 0;                     // operands begin so many rows, of their last dimension, behind a boundary
  std::vector<MemoryLayout> layouts = {};  // of inputs, then of outputs; empty: all are row-major
  bool captured = false;                   // where the device captures work: as work captured in an act before
};

struct KernelResult {
  std::vector<RefTensor> inputs;  // after the call
  std::vector<RefTensor> outputs;
  std::vector<std::vector<char>> bytes;  // of the inputs, then of the outputs, as they lie, for bitwise comparisons
};

// NotFound if the device has no such kernel; Internal if it failed, or wrote beyond an output or its scratch area.
absl::StatusOr<KernelResult> RunKernel(DeviceContext& device, const KernelCall& call);

// Internal, with the first element of `got` that is further from `want`, as that is rounded to its type, than
// `tolerance` (1 + |want|). NaNs are near each other, and infinities of one sign. `what` names the tensors.
absl::Status CheckNear(const std::vector<RefTensor>& got, const std::vector<RefTensor>& want, double tolerance,
                       const char* what);

}  // namespace oneflow::testing
