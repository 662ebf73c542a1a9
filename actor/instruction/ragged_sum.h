// A kernel's call that sums ragged rows, as calls on the filled rows; no other is read.
//
//   batch_matmul  xᵀ [8,32,64~], dy [8,64~,16] -> [8,32,16]   outputs have the groups: a call for each
//   reduce_sum    x [8,64~,32] -> [32]                        a call for each, whose results are added up
//   reduce_sum    x [8,4,64~,32] -> [1,4,1,1]                 outputs have some of the groups: of each the others
//   reduce_sum    x [8,64~,32] -> [64,32]                     outputs have the rows: the first ones, of zeros, as many
//                                                             as are filled, are added to
//   accumulate    x [8,64~,32] -> [8,64,32]                   likewise, micro-batch by micro-batch
//   matmul_wgrad  x [8,64~,32], dy [8,64~,16] -> [32,16]      the filled rows of all groups are packed, one behind
//                                                             the other, and are one call
//
// Packing is for outputs that are larger than the data of a group, or that are rounded, and for kernels that prepare
// for shapes. Packed rows end with zeros, up to the next number of rows that the kernel has prepared for.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "actor/instruction/ragged_operand.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/ragged.h"

namespace oneflow {

class RaggedSum {
 public:
  // For operands as those of `args`, without counts and memory. `accumulates`: the kernel itself adds to its outputs,
  // except for the first micro-batch. REQUIRES: rule.by_groups; the kernel outlives this.
  RaggedSum(const RaggedRule& rule, const Kernel& kernel, const KernelArgs& args, bool accumulates = false);

  // Scratch memory of a run, as far as it is known before Prepare().
  int64_t ScratchBytes(const KernelArgs& args);
  // Lets the kernel prepare; returns the scratch memory of a run. Unimplemented if the kernel does not support the
  // shapes.
  absl::StatusOr<int64_t> Prepare(const KernelArgs& args);

  // Calls the kernel with `args`, whose workspace is that large; `on_host` has the contents of `counts`.
  // InvalidArgument if one is no number of rows; Internal with the words of kernel and device. Not thread-safe.
  absl::Status Run(DeviceContext& device, const KernelArgs& args, const TensorArg& counts, const int32_t* on_host);

 private:
  // The call for this many rows of a group, or of the packed rows of all groups that are summed with it.
  KernelArgs CallOf(const KernelArgs& args, const std::vector<int64_t>& group, int64_t rows);
  KernelArgs PackedCall(const KernelArgs& args, const std::vector<int64_t>& group, int64_t rows);
  int64_t KernelBytes(const KernelArgs& args, int64_t rows, void* state);
  int64_t AddParts(int64_t bytes);
  // The outputs of `group`, in which summed groups have index 0.
  absl::Status RunPacked(DeviceContext& device, const KernelArgs& args, const TensorArg& counts, int64_t filled,
                         const std::vector<int64_t>& group);
  absl::Status RunAdding(DeviceContext& device, const KernelArgs& args, const int32_t* counts,
                         const std::vector<int64_t>& group);
  absl::Status Pack(DeviceContext& device, const TensorArg& x, void* to, const TensorArg& counts, int64_t filled,
                    int64_t rows, const std::vector<int64_t>& group);
  // The filled rows of all groups that are summed for `group`.
  absl::StatusOr<int64_t> CountFilled(const int32_t* counts, const std::vector<int64_t>& group) const;
  // Among the groups of the shard.
  int64_t IndexOf(const std::vector<int64_t>& group) const;
  int64_t Filled(int32_t count) const { return FilledRows(count, first_row_, rows_); }

  const Kernel& kernel_;
  std::vector<RaggedOperand> inputs_, outputs_;
  std::vector<int64_t> groups_;       // their dimensions
  std::vector<int64_t> kept_dims_;    // of these: those that outputs have, 1 for others
  std::vector<int64_t> summed_dims_;  // the dimensions that are summed
  int64_t summed_ = 1;                // groups that are summed for an output
  bool keeps_rows_, accumulates_;
  int64_t first_row_ = 0, rows_ = 0;  // of a group
  int64_t logical_rows_ = 0;          // the most of a group
  bool packs_ = false;
  int64_t step_ = 1;                           // packed: rows of calls are a multiple of it, or all
  std::vector<std::shared_ptr<void>> states_;  // for 1, 2, ... steps; none if the kernel prepares nothing
  std::vector<int64_t> part_offsets_;          // in scratch memory: of packed inputs, or of outputs to be added
  std::vector<TensorArg> in_, out_;
};

}  // namespace oneflow
