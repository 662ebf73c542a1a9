// What edges with a policy are made of (compiler/edges/). addends speaks of ranks, not of logical tensors, and only the
// compiler adds it.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferAddends(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat32}}));
  OF_ASSIGN_OR_RETURN(const int64_t count, IntAttr(c.attrs, "count", c.of_shards ? 0 : 1));
  std::vector<int64_t> dims = {count};
  dims.insert(dims.end(), c.inputs[0].shape.dims().begin(), c.inputs[0].shape.dims().end());
  return Outputs({{c.inputs[0].dtype, Shape(dims)}});
}

AttrMap AddendsOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  AttrMap of_shard = attrs;
  of_shard.Set("count", outputs[0].dims[0]);
  return of_shard;
}

absl::StatusOr<Types> InferOrthonormalize(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat32, Exactly(2)}}));
  return Outputs({c.inputs[0]});
}

// Two passes of Gram-Schmidt, each of 4 n r (r + 1) / 2.
double FlopsOfOrthonormalize(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
  const double rows = static_cast<double>(inputs[0].shape[0]), columns = static_cast<double>(inputs[0].shape[1]);
  return 4 * rows * columns * (columns + 1);
}

}  // namespace

void AddCodecOps(OpRegistry& registry) {
  registry.Add({.name = "addends", .infer = InferAddends, .shard_attrs = AddendsOfShard});
  registry.Add({.name = "orthonormalize",
                .rule = "nr->nr; whole n r",
                .infer = InferOrthonormalize,
                .flops = FlopsOfOrthonormalize});
}

}  // namespace oneflow::ops
