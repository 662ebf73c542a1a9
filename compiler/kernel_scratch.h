// What kernels need of memory while they run: a fact of devices, so whoever compiles brings it along.
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

// Of the host, for every value that is read or fetched on devices with memory of their own: one is filled while the
// other is on its way.
inline constexpr int kTransferSlots = 2;

struct KernelScratch {
  std::set<std::string> ops;  // whose kernels need any, but for ragged rows: of these any may
  // Bytes that the kernel of such an op needs for one act on shards of these types. Never negative.
  std::function<int64_t(const OpDef& op, const AttrMap& attrs, absl::Span<const ShardType> inputs,
                        absl::Span<const ShardType> outputs)>
      num_bytes;
};

}  // namespace oneflow
