// The op read_data: reads a micro-batch of data, of the kind that its attribute 'dataset' names
// (oneflow_core/data/data_kind.h).
#pragma once

#include <vector>

#include "oneflow_core/op.h"

namespace oneflow::ops {

absl::StatusOr<std::vector<TensorType>> InferReadData(const InferContext& c);
// Data is split by samples: a shard is a smaller batch.
AttrMap ReadDataOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs);

}  // namespace oneflow::ops
