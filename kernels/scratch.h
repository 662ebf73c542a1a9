// What kernels ask for of scratch memory, asked without a device: so that a plan can set it aside.
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

// Shards without data, as if at the beginning of their tensors. Borrows the types.
class ShapeArgs {
 public:
  explicit ShapeArgs(absl::Span<const ShardType> types);
  std::span<const TensorArg> args() const { return args_; }

 private:
  std::deque<std::vector<int64_t>> starts_;
  std::vector<TensorArg> args_;
};

// The ops of which a kernel may ask for any.
std::set<std::string> OpsWithScratch(const KernelTable& kernels);

// Bytes that the kernel of `op` asks for on shards of these types when its device uses up to `threads` threads; 0 if
// there is no such kernel. Less than it will ask for where only its `prepare` finds out (convolutions on cuda, whose
// library measures).
int64_t ScratchBytes(const KernelTable& kernels, const std::string& op, const AttrMap& attrs,
                     absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs, int threads);

}  // namespace oneflow
