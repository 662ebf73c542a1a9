// The kinds of data that the op read_data reads, one line each in read_data.cc: what a batch looks like and what it is
// counted in. How a kind is read is beside its source: actor/data/source.cc has the same kinds.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/op.h"

namespace oneflow {

struct DataKind {
  const char* name;  // attribute 'dataset'
  // A micro-batch of `batch` samples, by the node's attributes. InvalidArgument if one is missing or out of range.
  absl::StatusOr<std::vector<TensorType>> (*types)(const AttrMap& attributes, int64_t batch);
  const char* unit;      // what progress is counted in: "tokens"
  bool counts_elements;  // every element of the first output is one, else every sample
};

absl::Span<const DataKind> DataKinds();
// InvalidArgument naming all kinds.
absl::StatusOr<DataKind> FindDataKind(absl::string_view name);

namespace ops {
absl::StatusOr<std::vector<TensorType>> InferReadData(const InferContext& c);
// Data is split by samples: a shard is a smaller batch.
AttrMap ReadDataOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs);
}  // namespace ops

}  // namespace oneflow
