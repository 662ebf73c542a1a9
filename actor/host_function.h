// Host functions: the code behind ops of kind kCall (oneflow_core/op.h). A CALL instruction runs one on the host queue,
// between kernels of the device, with its operands in host memory: callbacks, measurements, environments, servers.
//
//   registers ──► CALL: function(inputs, state) ──► registers
//
// A job can stop and go on anywhere, so what a function returns must follow from its operands, its attributes and the
// act's numbers alone. State is an operand: a variable that the op mutates, which checkpoints save like any other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/tensor_arg.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/status.h"

namespace oneflow {

// One call. Tensors are in host memory, for as long as the call lasts.
struct HostCall {
  std::span<const TensorArg> in;   // those that the op mutates may be written
  std::span<const TensorArg> out;  // to be filled
  int64_t step = 0;                // steps since the job began
  int64_t micro_batch = 0;
  int64_t micro_batches = 1;
};

// A function of one instruction of a rank. Calls of it come one after another, from one thread at a time.
class HostFunction {
 public:
  virtual ~HostFunction() = default;
  // An error fails the job; the runtime adds the node and the user's line.
  virtual absl::Status Call(const HostCall& call) = 0;
};

struct HostFunctionKind {
  const char* op;
  // Called once per instruction when a plan is loaded. `attributes` are the node's.
  absl::StatusOr<std::unique_ptr<HostFunction>> (*open)(const AttrMap& attributes) = nullptr;
};

// For the rest of the process. REQUIRES: `op` has no function yet. Not while another thread opens one.
void AddHostFunction(HostFunctionKind kind);

// Unimplemented if no function is known for the op; errors of `open`.
absl::StatusOr<std::unique_ptr<HostFunction>> OpenHostFunction(const std::string& op, const AttrMap& attributes);

}  // namespace oneflow
