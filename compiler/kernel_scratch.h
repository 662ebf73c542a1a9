// The scratch memory of kernels. It is a fact of devices, so the caller of the compiler supplies it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "absl/types/span.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/op.h"
#include "oneflow_core/shape.h"

namespace oneflow {

// Slots in host memory for every value that is read or fetched on devices with their own memory: one is filled while
// the other is in transfer.
inline constexpr int kTransferSlots = 2;

struct KernelScratch {
  std::set<std::string> ops;  // with scratch memory; kernels on ragged rows may need some in any case
  // Bytes that the kernel of such an op needs for one act on shards of these types. Never negative.
  std::function<int64_t(const OpDef& op, const AttrMap& attrs, absl::Span<const ShardType> inputs,
                        absl::Span<const ShardType> outputs)>
      num_bytes;
};

}  // namespace oneflow
