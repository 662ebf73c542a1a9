#include "oneflow_core/ops/read_data.h"

#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/ops/check.h"

namespace oneflow::ops {

absl::StatusOr<Types> InferReadData(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {}));
  OF_ASSIGN_OR_RETURN(const std::string dataset, StringAttr(c.attrs, "dataset"));
  OF_ASSIGN_OR_RETURN(const int64_t batch, IntAttr(c.attrs, "batch", c.of_shards ? 0 : 1));
  OF_ASSIGN_OR_RETURN(const DataKind kind, FindDataKind(dataset));
  OF_ASSIGN_OR_RETURN(Types types, kind.types(c.attrs, batch));
  return Outputs(std::move(types));
}

AttrMap ReadDataOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  return With(attrs, "batch", outputs[0].dims[0]);
}

}  // namespace oneflow::ops
