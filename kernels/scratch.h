// The scratch memory of kernels, computed without a device, so that a plan can reserve it.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/kernel.h"
#include "oneflow_core/shape.h"

namespace oneflow {

// Operands of these shapes without data, as if they began their tensors. Borrows the types.
class ShapeArgs {
 public:
  explicit ShapeArgs(absl::Span<const ShardType> types);
  std::span<const TensorArg> args() const { return args_; }

 private:
  std::deque<std::vector<int64_t>> starts_;
  std::vector<TensorArg> args_;
};

// The ops with a kernel that may need scratch memory.
std::set<std::string> OpsWithScratch(const KernelTable& kernels);

// Scratch bytes of the kernel of `op` on shards of these types, on a device of up to `threads` threads; 0 if there is
// no such kernel. Too little where only `prepare` knows (convolutions on CUDA, whose library measures).
int64_t ScratchBytes(const KernelTable& kernels, const std::string& op, const AttrMap& attrs,
                     absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs, int threads);

}  // namespace oneflow
