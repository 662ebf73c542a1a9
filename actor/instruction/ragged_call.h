// A kernel's call on ragged operands, as one call for the filled rows of each group; nothing else is computed.
//
//   matmul   x [8,64~,32], w [32,16]      8 calls on [1,counts[g],32] and [32,16]
//   batch    x [8,64~,32], w [8,32,16]    8 calls on [1,counts[g],32] and [1,32,16]
//
// A kernel that prepares for shapes does so at load, for a few numbers of rows. A group takes the next larger one, so
// up to a sixteenth of the capacity is computed beside the filled rows.
//
// Where a group is not contiguous in an operand's memory, a kernel is called once for all rows; nobody reads its
// results for the others.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "actor/instruction/ragged_operand.h"
#include "kernels/kernel.h"
#include "oneflow_core/ragged.h"

namespace oneflow {

// For ops that keep rows; those that sum them: ragged_sum.h.
class RaggedCall {
 public:
  // For operands laid out as `inputs`, without counts, and `outputs`. Empty if a call by groups is not possible.
  static std::optional<RaggedCall> Create(const RaggedRule& rule, std::span<const TensorArg> inputs,
                                          std::span<const TensorArg> outputs);

  // Lets the kernel prepare; returns the most scratch memory of a call. `args` are those of a call, without memory.
  // Unimplemented if the kernel does not support the shapes.
  absl::StatusOr<int64_t> Prepare(const Kernel& kernel, const KernelArgs& args);

  // Calls `kernel` with `args`, whose scratch memory has `scratch_bytes`; the host can read `counts`. Internal with the
  // kernel's words. Not thread-safe.
  absl::Status Run(const Kernel& kernel, const KernelArgs& args, const TensorArg& counts, int64_t scratch_bytes);

 private:
  // The call for `rows` rows of a group.
  KernelArgs CallOf(const KernelArgs& args, const std::vector<int64_t>& group, int64_t rows);
  // The first output that has rows.
  size_t FirstWithRows() const;

  // For 1, 2, ... steps of rows, the last for all: the kernel's prepared state. Empty if it prepares nothing.
  std::vector<std::shared_ptr<void>> states_;
  int64_t step_ = 1;
  std::vector<RaggedOperand> inputs_, outputs_;
  std::vector<TensorArg> in_, out_;
};

}  // namespace oneflow
